"""The service compared with a model, one request at a time and under concurrent requests.

`test_model.py` sends the same requests to the service and to a model in plain Python, one at a
time, and compares all responses. `test_concurrency.py` lets many clients send requests at once, and
looks for an order of them in which the model has the same responses.

`CONSISTENCY_SCALE=50 pytest tests/consistency` runs 50 times the usual number of steps and of
concurrent requests, and with other examples on every run; without it, the examples of the model
are the same on every run.
"""
