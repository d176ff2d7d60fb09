"""A handler that writes down what it is given.

It refuses types and ids that the file `refused` names, waits as long as the file `slow` names a type, and dies of those
that the file `fatal` names.
"""

import json
import os
import sys
import time

def names(file):
    try:
        with open(file) as names:
            return names.read().split()
    except FileNotFoundError:
        return []


with open("handler.pid", "w") as pid:
    pid.write(str(os.getpid()))

for line in sys.stdin:
    request = json.loads(line)
    with open("received", "a") as received:
        received.write(line)
    while request["type"] in names("slow"):
        time.sleep(0.05)
    if request["type"] in names("fatal"):
        os._exit(9)
    bad = names("refused")
    answer = {"id": request["id"]}
    if request["type"] in bad or request["id"] in bad:
        answer["error"] = "the handler refuses it"
    else:
        answer["ok"] = True
    print(json.dumps(answer), flush=True)
