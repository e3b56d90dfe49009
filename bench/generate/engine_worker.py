"""The process of one engine: reads calls from stdin, a JSON object a line, and answers to stdout."""

import importlib
import json
import os
import sys


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    engine = importlib.import_module(sys.argv[1])
    session = None
    for line in sys.stdin:
        arguments = json.loads(line)
        function = arguments.pop("call")
        if function == "choices":
            answer = engine.choices(**arguments)
        elif function == "load":
            if session is not None:
                session.close()
            session = engine.Session(**arguments)
            answer = session.about()
        else:
            answer = session.generate(**arguments)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
