/** Incidents that a run of histories must produce, each at least once. */
export const INCIDENTS = [
  'connection cut',
  'cut before the first ACCEPT',
  'cut before the ACCEPT of a resume',
  'ACCEPT of a resumed session lost',
  'connection frozen',
  'one direction dead',
  'network down',
  'HELLO late',
  'HELLO repeated',
  'resumed while still connected',
  'stale attempt refused',
  'resumed',
  'resumed while closing',
  'closed by the client',
  'closed by the server',
  'closed without a connection',
  'closed in order',
  'server restarted',
  'window passed',
  'not recovered',
] as const;
export type Incident = (typeof INCIDENTS)[number];

export class Tally {
  readonly #counts = new Map<Incident, number>(INCIDENTS.map((name) => [name, 0]));

  count(name: Incident): void {
    this.#counts.set(name, this.of(name) + 1);
  }

  of(name: Incident): number {
    return this.#counts.get(name) ?? 0;
  }

  add(other: Tally): void {
    for (const name of INCIDENTS) this.#counts.set(name, this.of(name) + other.of(name));
  }

  entries(): Iterable<readonly [Incident, number]> {
    return this.#counts;
  }
}
