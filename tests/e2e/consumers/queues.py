"""Prints what is in a RabbitMQ queue, one JSON object a message, and takes it out: queues.py URL QUEUE."""
import json
import sys

import pika

url, queue = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
left = channel.queue_declare(queue, passive=True).method.message_count
if left:
    for method, properties, body in channel.consume(queue):
        print(json.dumps({"id": properties.message_id, "headers": properties.headers, "value": json.loads(body)}))
        channel.basic_ack(method.delivery_tag)
        left -= 1
        if left == 0:
            break
connection.close()
