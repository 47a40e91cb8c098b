import type { ListedNode, NodeList } from './engine.js';

interface Lease {
  /** The node's description of itself. */
  readonly record: string;
  /** Milliseconds of the clock. */
  readonly endsAt: number;
}

/** Which nodes live, within one process. */
export class MemoryLeases {
  readonly #now: () => number;
  readonly #leases = new Map<string, Lease>();
  #version = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  renew(incarnation: string, record: string, leaseMs: number, known: string | undefined): NodeList {
    const now = this.#now();
    if (this.#leases.get(incarnation)?.record !== record) this.#version++;
    this.#leases.set(incarnation, { record, endsAt: now + leaseMs });
    for (const [each, { endsAt }] of this.#leases) if (endsAt <= now) this.withdraw(each);
    const version = String(this.#version);
    const nodes =
      version === known ? undefined : Array.from(this.#leases, ([each, lease]) => listed(each, lease, now));
    return { nodes, version, now, hasForgotten: false };
  }

  /** Those that are not over. */
  living(): readonly string[] {
    const now = this.#now();
    return [...this.#leases].filter(([, { endsAt }]) => endsAt > now).map(([incarnation]) => incarnation);
  }

  find(incarnation: string): ListedNode | undefined {
    const lease = this.#leases.get(incarnation);
    const now = this.#now();
    return lease === undefined || lease.endsAt <= now ? undefined : listed(incarnation, lease, now);
  }

  withdraw(incarnation: string): void {
    if (this.#leases.delete(incarnation)) this.#version++;
  }
}

function listed(incarnation: string, { record, endsAt }: Lease, now: number): ListedNode {
  return { incarnation, record, leaseMs: endsAt - now };
}
