"""What every view of the API shares: the principal, known filters, JSON answers, no caching."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar

from django.http import HttpResponseBase
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduling.api.authentication import principal_of
from scheduling.api.problems import Problem, invalid
from scheduling.services.drafts import FieldError
from tenants.rbac import Principal


class AlwaysJson(BaseContentNegotiation):
    """Answers JSON whatever the client says it accepts; reads what the parser takes."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """Return the parser of the body's content type; None gives a 415."""
        kind = (request.content_type or "").split(";")[0].strip().lower()
        return next((one for one in parsers if one.media_type == kind), None)

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the first renderer."""
        first = next(iter(renderers))
        return first, str(first.media_type)


class Endpoint(APIView):
    """A view of the API. `filters` are the query parameters that its GET knows, `write_filters` those
    of its other methods.
    """

    content_negotiation_class = AlwaysJson
    filters: ClassVar[frozenset[str]] = frozenset()
    write_filters: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Authenticate, then refuse filters that the view does not know."""
        if request.headers.get("Transfer-Encoding") and not request.headers.get("Content-Length"):
            raise Problem(411, "length_required", "Send a body with its Content-Length.")
        super().initial(request, *args, **kwargs)
        allowed = self.filters if request.method in ("GET", "HEAD") else self.write_filters
        unknown = sorted(set(request.query_params) - allowed)
        if unknown:
            known = ", ".join(sorted(allowed)) or "none"
            sentence = f"Is no filter of this address; known here: {known}."
            raise invalid(*(FieldError(field=name, sentence=sentence) for name in unknown))
        nul = next((name for name, value in request.query_params.items() if "\0" in value), None)
        if nul is not None:
            raise invalid(FieldError(field=nul, sentence="Holds a NUL character; take it out."))

    def finalize_response(  # type: ignore[override]
        self,
        request: Request,
        response: HttpResponseBase,
        *args: Any,  # noqa: ANN401 - the framework's signature
        **kwargs: Any,  # noqa: ANN401 - the framework's signature
    ) -> HttpResponseBase:
        """Keep answers out of caches: each depends on who asks."""
        final = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[arg-type]
        final["Cache-Control"] = "no-store"
        return final

    @cached_property
    def principal(self) -> Principal:
        """Return who calls."""
        return principal_of(self.request)


class UnknownRoute(Endpoint):
    """Answers every address that the API does not have."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Say that there is nothing here, whatever the method."""
        detail = f"There is no address {request.path}; /api/v1/docs/ lists those that there are."
        raise Problem(404, "unknown_address", detail)

    def get(self, request: Request) -> Response:
        """Never reached."""
        raise NotImplementedError


def whole_number(request: Request, name: str, default: int, bounds: tuple[int, int]) -> int:
    """Return a whole number from the query; raise a 400 `Problem` outside the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    low, high = bounds
    value = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1
    if not low <= value <= high:
        sentence = f"Must be a whole number from {low} to {high}."
        raise invalid(FieldError(field=name, sentence=sentence))
    return value
