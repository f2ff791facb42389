"""What all sockets and pages of this process share: the boards, the feed, the count of sockets."""

from scheduling.cockpit.feed import Feed
from scheduling.cockpit.limits import SocketCount
from scheduling.cockpit.readmodel import ReadModel
from scheduling.events import valkey_client

read_model = ReadModel(valkey_client)
feed = Feed()
sockets = SocketCount()
