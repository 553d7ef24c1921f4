"""The service compared with a model, and its consistency under concurrent requests.

`test_model.py` sends the same requests to the service and to a model in plain Python, one at a
time, and compares all responses. `test_concurrency.py` records the requests and responses of many
concurrent clients, and checks that a history of states of the database explains them.

`CONSISTENCY_SCALE=50 pytest tests/consistency` runs 50 times the usual number of steps and of
concurrent requests, and with other examples on every run; without it, the examples of the model
are the same on every run.
"""
