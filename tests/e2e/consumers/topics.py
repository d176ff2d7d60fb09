"""Prints what is in Kafka topics, one JSON object a message, partition by partition: topics.py BROKER TOPIC…"""
import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, TopicPartition


async def main(broker, *topics):
    consumer = AIOKafkaConsumer(*topics, bootstrap_servers=broker, auto_offset_reset="earliest", isolation_level="read_committed")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for topic in topics for number in sorted(consumer.partitions_for_topic(topic))]
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    key = record.key.decode() if record.key is not None else None
                    print(json.dumps({"topic": record.topic, "key": key, "value": json.loads(record.value)}))
    finally:
        await consumer.stop()


asyncio.run(main(*sys.argv[1:]))
