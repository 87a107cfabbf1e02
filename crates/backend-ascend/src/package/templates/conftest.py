"""Options and markers of pytest for the tests of this folder. Inside the runtime's repository its own are used."""


def pytest_addoption(parser):
    options = (
        ("--platform", "platform of the runtime: a2a3sim unless given"),
        ("--device", "devices, one a rank: 0-3 or 0,2,5"),
        ("--runtime", "runtime that builds the graph of tasks: @RUNTIME@ unless given"),
    )
    for name, words in options:
        try:
            parser.addoption(name, default=None, help=words)
        except ValueError:
            pass  # a folder above this one has the option


def pytest_configure(config):
    config.addinivalue_line("markers", "platforms(list): platforms on which a test runs")
    config.addinivalue_line("markers", "device_count(n): devices that a test takes")
