"""The cockpit's pages and the probes."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from scheduling.cockpit import costs, forecast, health, metrics, reviews, views

urlpatterns = [
    path("", views.board, name="board"),
    path(
        "login/",
        LoginView.as_view(template_name="login.html", redirect_authenticated_user=True),
        name="login",
    ),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("costs/", costs.costs, name="costs"),
    path("costs/export/", costs.costs_export, name="costs-export"),
    path("forecast/", forecast.forecast, name="forecast"),
    path("reviews/", reviews.reviews, name="reviews"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
]
