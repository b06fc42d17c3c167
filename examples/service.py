"""A web service for predictions: rows as JSON in, means, deviations and intervals out.

    bbalpha fit houses.csv --target price && bbalpha export houses.safetensors
    PREDICTOR=houses.predictor uvicorn examples.service:app

It needs NumPy, FastAPI and uvicorn, but no jax. The rows of one request are predicted together, and
a wrong row is answered with status 422 and a sentence. For a classifier, see `predict_proba`.
"""

import os
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from bbalpha.predictor import Predictor

MOST_ROWS = 1000  # of one request


class Request(BaseModel):
    """Rows, and the probability that the interval of each should have."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ROWS)]
    coverage: Annotated[float, Field(gt=0, lt=1)] = 0.9


class Prediction(BaseModel):
    """The prediction for a row."""

    mean: float
    std: float
    low: float
    high: float
    outside: bool  # whether an input lies far beyond the training range


def service_of(predictor: Predictor) -> FastAPI:
    """The service of a regressor."""
    service = FastAPI(title=f"Predictions of {predictor.target or 'the target'}")

    @service.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "columns": predictor.feature_names, "draws": predictor.num_draws}

    @service.post("/predict")
    def predict(request: Request) -> list[Prediction]:
        try:
            mean, std = predictor.predict(request.rows, return_std=True)
            ends = predictor.predict_interval(request.rows, request.coverage)
            outside = predictor.outside(request.rows)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        names = Prediction.model_fields
        columns = zip(mean.tolist(), std.tolist(), *ends.T.tolist(), outside.tolist(), strict=True)
        return [Prediction(**dict(zip(names, row, strict=True))) for row in columns]

    return service


if "PREDICTOR" in os.environ:
    app = service_of(Predictor.load(os.environ["PREDICTOR"]))
