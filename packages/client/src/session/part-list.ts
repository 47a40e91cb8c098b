import type { SessionReset } from '@parlance/protocol';
import type { ClientPart, Plan } from './part.js';

/** What a part is told or asked. */
type Hook = Exclude<keyof ClientPart, 'open' | 'plan' | 'lossOf' | 'isTakenUp' | 'isAway'>;
type Call<Name extends Hook> = NonNullable<ClientPart[Name]>;

/** The parts of one client. */
export class PartList {
  readonly #parts: ClientPart[];

  constructor(parts: readonly ClientPart[]) {
    this.#parts = [...parts];
  }

  get plan(): Plan {
    return Object.assign({}, ...this.#parts.map(({ plan }) => plan));
  }

  /** Adds a part that a call has asked for. */
  add(part: ClientPart): void {
    this.#parts.push(part);
  }

  /** Calls a hook of each part that has it. Returns what each part has returned. */
  call<Name extends Hook>(
    name: Name,
    ...args: Parameters<Call<Name>>
  ): (ReturnType<Call<Name>> | undefined)[] {
    type Hooks = Record<Hook, ((...args: unknown[]) => ReturnType<Call<Name>>) | undefined>;
    return this.#parts.map((part) => (part as Hooks)[name]?.(...args));
  }

  has(state: 'isTakenUp' | 'isAway'): boolean {
    return this.#parts.some((part) => part[state]);
  }

  lossOf(reset: SessionReset): SessionReset {
    return this.#parts.reduce((lost, part) => part.lossOf?.(lost) ?? lost, reset);
  }
}
