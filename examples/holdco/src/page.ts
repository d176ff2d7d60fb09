// The page for people: how many events wait, what customers were told, and what the relay says of itself.
import { prisma } from "./prisma";

const RELAY = process.env.POSTROOM_HTTP__LISTEN ?? "127.0.0.1:7480";
const METRICS: [string, string][] = [
  ["oldest event that is due, in seconds", "postroom_oldest_due_age_seconds"],
  ["dead letters", "postroom_dead_letters"],
];

export async function page(): Promise<string> {
  const rows: [string, unknown][] = [["orders", await prisma.order.count()]];
  for (const status of ["pending", "published", "failed", "dead"]) {
    rows.push([`${status} events`, await prisma.eventOutbox.count({ where: { status } })]);
  }
  rows.push(["notifications", await prisma.notification.count()]);
  rows.push(...(await relay()));
  const table = rows.map(([name, value]) => `<tr><td>${name}</td><td>${value}</td></tr>`).join("\n");
  return `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>holdco</title>
<h1>HoldCo</h1>
<table>
${table}
</table>
<p><a href="http://${RELAY}/">the relay's console</a>, <a href="http://${RELAY}/v1/health">its health</a>
`;
}

// The relay's own numbers; none while it is away.
async function relay(): Promise<[string, string][]> {
  const headers = { "x-metrics-token": process.env.METRICS_TOKEN ?? "" };
  const said = await fetch(`http://${RELAY}/v1/metrics`, { headers }).then((answer) => answer.text(), () => "");
  return METRICS.map(([name, metric]) => {
    const line = said.split("\n").find((line) => line.startsWith(`${metric}{`));
    return [name, line?.split(" ").pop() ?? "the relay does not run"];
  });
}
