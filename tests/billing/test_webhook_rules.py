"""Where webhooks may go, how they are signed, and how long between two tries."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.core.webhooks import is_public, signature, url_fault, wait_s

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",  # noqa: S104
    "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", PRIVATE)
def test_nothing_of_this_machine_or_network_is_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_open_internet_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "ftp://example.org/", "https://", "example.org", "",
        "https://user:pw@example.org/", "https://example.org/#part", "https://exa mple.org/",
        "https://[::1", "https://example.org:99999/", "https://ex\u00e4mple.org/",
        "https://localhost/", "https://api.localhost/", "https://127.0.0.1/", "https://[::1]/",
        "https://169.254.169.254/latest", "https://example.org/" + "x" * 500,
    ],
)  # fmt: skip
def test_an_address_that_must_not_be_is_refused(url):
    assert url_fault(url, private_allowed=False)


def test_good_addresses_pass_and_private_ones_where_they_are_allowed():
    assert url_fault("https://example.org:8443/hooks?x=1", private_allowed=False) == ""
    assert url_fault("http://127.0.0.1:9/", private_allowed=True) == ""
    assert url_fault("gopher://127.0.0.1:9/", private_allowed=True)


def test_the_signature_is_that_of_the_time_and_the_body():
    expected = hmac.new(b"secret", b'17.{"a":1}', hashlib.sha256).hexdigest()
    assert signature("secret", 17, b'{"a":1}') == f"t=17,v1={expected}"


@given(st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_an_hour_and_keep_half_of_it(tries, jitter):
    full = min(3600.0, 10.0 * 2 ** min(tries - 1, 20))
    assert full / 2 <= wait_s(tries, jitter) <= full
