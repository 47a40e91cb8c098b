/** Everything that is to befall sessions; a run of histories shows that each of it has happened. */
export const BEFALLS = [
  'connection cut',
  'cut before the first HELLO was answered',
  'cut before a HELLO that resumes was answered',
  'ACCEPT of a resumed session lost',
  'connection frozen',
  'one direction dead',
  'nobody could connect',
  'HELLO late',
  'HELLO repeated',
  'taken up while another connection carried it',
  'stale attempt refused',
  'taken up',
  'taken up while closing',
  'closed by the client',
  'closed by the server',
  'closed without a connection',
  'closed in order',
  'server started anew',
  'window passed',
  'not recovered',
] as const;
export type Befall = (typeof BEFALLS)[number];

export class Tally {
  readonly #counts = new Map<Befall, number>(BEFALLS.map((name) => [name, 0]));

  count(name: Befall): void {
    this.#counts.set(name, this.of(name) + 1);
  }

  of(name: Befall): number {
    return this.#counts.get(name) ?? 0;
  }

  add(other: Tally): void {
    for (const name of BEFALLS) this.#counts.set(name, this.of(name) + other.of(name));
  }

  entries(): Iterable<readonly [Befall, number]> {
    return this.#counts;
  }
}
