"""All addresses."""

from django.contrib import admin
from django.urls import include, path, re_path

from scheduling.api.endpoint import UnknownRoute

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("scheduling.api.urls")),
    re_path(r"^api/", UnknownRoute.as_view()),
    path("", include("scheduling.cockpit.urls")),
]
