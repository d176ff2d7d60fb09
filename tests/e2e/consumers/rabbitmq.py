"""Prints what is in a RabbitMQ queue as lines of a journal, and leaves it there: rabbitmq.py URL QUEUE ROUTE."""
import json
import sys

import pika

url, queue, route = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
left = channel.queue_declare(queue, passive=True).method.message_count
if left:
    for _, properties, body in channel.consume(queue):
        data = json.loads(body)
        assert properties.delivery_mode == 2 and properties.headers["ce-id"] == properties.message_id, properties
        print(0, route, properties.message_id, data["key"], data["number"], 1, "ok")
        left -= 1
        if left == 0:
            break
connection.close()
