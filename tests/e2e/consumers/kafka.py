"""Prints what is in a Kafka topic as lines of a journal: kafka.py BROKER TOPIC ROUTE."""
import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, TopicPartition


async def main(broker, topic, route):
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker, auto_offset_reset="earliest", isolation_level="read_committed")
    await consumer.start()
    try:
        numbers = consumer.partitions_for_topic(topic)
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    headers, data = dict(record.headers), json.loads(record.value)
                    assert record.key.decode() == data["key"] == headers["ce_partitionkey"].decode(), record
                    print(0, route, headers["ce_id"].decode(), data["key"], data["number"], 1, "ok")
    finally:
        await consumer.stop()


asyncio.run(main(*sys.argv[1:]))
