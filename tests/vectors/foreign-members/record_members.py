"""Records what foreign clients write into ZooKeeper beside a real broker, as snapshots (see README.md).

python tests/vectors/foreign-members/record_members.py CLIENTS
where CLIENTS holds a virtual environment `pykafka` and a directory `kafka-node` with node_modules.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from zkconsumer.__main__ import main
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

HERE = Path(__file__).parent
HOST = "host7"
PYKAFKA = f"""
import logging, socket, sys
logging.basicConfig(level=logging.WARNING)
socket.gethostname = lambda: "{HOST}"
from pykafka import KafkaClient
client = KafkaClient(hosts=sys.argv[1], broker_version="0.8.2")
consumer = client.topics["orders"].get_balanced_consumer("pykafka", zookeeper_connect=sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""
KAFKA_NODE = """
const kafka = require('kafka-node');
const client = new kafka.Client(process.argv[1]);
const consumer = new kafka.HighLevelConsumer(client, [{topic: 'orders'}, {topic: 'refunds'}], {groupId: 'kafka-node'});
consumer.on('error', error => console.error(error));
consumer.on('message', () => {});
setInterval(() => {}, 1000);
"""


def owns_both(client: KazooClient, owners: str) -> bool:
    """All partitions of a topic, whatever the client makes of its name."""
    topics = client.get_children(owners) if client.exists(owners) else []
    return bool(topics) and all(len(client.get_children(f"{owners}/{topic}")) == 2 for topic in topics)


def record(clients: Path) -> None:
    with ZooKeeperServer() as zookeeper, KafkaCluster(version="0.8.2.2", brokers=1, zookeeper=zookeeper) as kafka:
        for topic in ("orders", "refunds"):
            kafka.create_topic(topic, partitions=2)
            kafka.produce(topic, [b"m"], partition=0)
        where = kafka.zookeeper_connect
        commands = {
            "pykafka": [str(clients / "pykafka/bin/python"), "-c", PYKAFKA, kafka.bootstrap_servers, where],
            "kafka-node": ["node", "-e", KAFKA_NODE, where],
        }
        client = KazooClient(where)
        client.start()
        for name, command in commands.items():
            process = subprocess.Popen(command, cwd=clients / name, stdin=subprocess.PIPE)
            try:
                eventually(partial(owns_both, client, f"/consumers/{name}/owners"), name, 60)
                main(
                    [
                        "snapshot",
                        "save",
                        str(HERE / f"{name}.json"),
                        "--zookeeper",
                        where,
                        "--group",
                        name,
                        "--overwrite",
                    ]
                )
            finally:
                process.kill()
                process.wait()
        client.stop()
        client.close()


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve())
