"""Log lines as a process writes them where no terminal is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
START = "from service.log import configure_logging, get_logger\n"
JSON = START + "configure_logging()\n"


def ran(program):
    """Output and lines of standard error."""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=True
    )
    return ended.stdout.splitlines(), ended.stderr.splitlines()


def lines(program):
    printed, written = ran(JSON + program)
    assert printed == []
    return list(map(json.loads, written))


def test_a_line_is_one_json_object_with_time_level_and_logger():
    (line,) = lines("get_logger('webhook').info('review', uid='a\\nb', slices=4, queue=None)")
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "review",
        "level": "info",
        "logger": "webhook",
        "uid": "a\nb",
        "slices": 4,
        "queue": None,
    }


def test_an_exception_of_a_library_becomes_one_line_without_a_traceback():
    (line,) = lines(
        "import logging\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
        "    logging.getLogger('uvicorn.error').exception('Exception in ASGI application')\n"
    )
    assert (line["logger"], line["level"], line["event"]) == (
        "uvicorn.error",
        "warning",
        "Exception in ASGI application",
    )
    assert line["error"] == "ZeroDivisionError: division by zero"


def test_what_libraries_say_by_the_way_is_left_out():
    assert lines("import logging\nlogging.getLogger('asyncio').info('selector')") == []


def test_a_log_that_nobody_reads_any_more_breaks_nothing():
    program = "os.close(reader)\nget_logger('webhook').info('review')\nprint('still here')\n"
    assert printed(program) == ["still here"]


def test_lines_of_an_event_loop_come_in_their_order_and_the_last_is_not_lost():
    written = lines(
        "import asyncio\nlog = get_logger('a')\n"
        "async def main():\n    log.info('one')\n    log.info('two')\n"
        "    await asyncio.sleep(0)\n    log.info('last')\n"
        "asyncio.run(main())\nlog.info('after')"
    )
    assert [line["event"] for line in written] == ["one", "two", "last", "after"]


@pytest.mark.parametrize(
    ("level", "written"),
    [("info", ["one", "two", "three"]), ("warning", ["two", "three"]), ("error", ["three"])],
)
def test_below_the_level_nothing_is_written(level, written):
    said = "log = get_logger('a')\nlog.info('one')\nlog.warning('two')\nlog.error('three')\n"
    _, found = ran(f"{START}configure_logging('{level}')\n{said}")
    assert [json.loads(line)["event"] for line in found] == written


def test_text_has_nothing_that_a_terminal_obeys():
    said = "configure_logging(form='text')\nget_logger('a').info('b', pod='\\x1b[31m', n=4)\n"
    _, (line,) = ran(START + said)
    assert line.endswith("Z info    a: b pod=\\x1b[31m n=4")


FULL_PIPE = JSON + (
    "import asyncio, os, sys\nreader, writer = os.pipe()\nos.dup2(writer, 2)\nlog = get_logger('webhook')\n"
)


def printed(program):
    output, _ = ran(FULL_PIPE + program)
    return output


def test_a_log_that_nobody_reads_stops_nothing_and_loses_lines_that_are_counted():
    program = (
        "from service.log import lost_lines\n"
        "async def main():\n"
        "    for _ in range(30):\n"
        "        for _ in range(100):\n            log.info('review', text='x' * 1000)\n"
        "        await asyncio.sleep(0)\n"
        "    print('served', 1000 < lost_lines() < 3000)\n"
        "asyncio.run(main())\n"
        "print('ended')\n"
    )
    assert printed(program) == ["served True", "ended"]


def test_lines_of_threads_and_of_the_loop_are_whole_and_each_there_once():
    program = (
        "import json, threading\n"
        "from service import log as module\n"
        "def read():\n"
        "    while sum(part.count(b'\\n') for part in parts) < 4000:\n"
        "        parts.append(os.read(reader, 5000))\n"
        "def say(first):\n"
        "    for number in range(first, first + 2000):\n"
        "        log.info('said', number=number, text='x' * 50)\n"
        "async def main():\n"
        "    beside = asyncio.create_task(asyncio.to_thread(say, 2000))\n"
        "    for first in range(0, 2000, 10):\n"
        "        for number in range(first, first + 10):\n            log.info('said', number=number)\n"
        "        await asyncio.sleep(0)\n"
        "    await beside\n"
        "parts = []\n"
        "module.MAX_WAITING_BYTES = 10**7\n"
        "reading = threading.Thread(target=read)\n"
        "reading.start()\n"
        "asyncio.run(main())\n"
        "module._LAST_SECONDS = 100.0\n"
        "module.write_rest()\n"
        "reading.join()\n"
        "numbers = [json.loads(line)['number'] for line in b''.join(parts).splitlines()]\n"
        "print(sorted(numbers) == list(range(4000)))\n"
    )
    assert printed(program) == ["True"]
