"""Deferrable sensors."""

from airflow_provider_dpone.sensors.activation import ActivationSensor
from airflow_provider_dpone.sensors.quiescence import QuiescenceSensor

__all__ = ["ActivationSensor", "QuiescenceSensor"]
