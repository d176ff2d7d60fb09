"""Runs a script of the team's with the brokers of REDPANDA_BROKERS in place of localhost:19092, which it has in its text."""
import os
import runpy
import sys

import aiokafka

BROKERS = os.environ.get("REDPANDA_BROKERS", "localhost:19092")


class Consumer(aiokafka.AIOKafkaConsumer):
    def __init__(self, *topics: str, **options: object) -> None:
        super().__init__(*topics, **{**options, "bootstrap_servers": BROKERS})


aiokafka.AIOKafkaConsumer = Consumer
runpy.run_path(sys.argv[1], run_name="__main__")
