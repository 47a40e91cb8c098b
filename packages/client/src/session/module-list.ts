import type { SessionReset } from '@parlance/protocol';
import type { ClientModule, Plan } from './module.js';

/** The hooks of a module. */
type Hook = Exclude<keyof ClientModule, 'open' | 'plan' | 'lossOf' | 'isRebuilt' | 'isAway'>;
type Call<Name extends Hook> = NonNullable<ClientModule[Name]>;

/** The modules of one client. */
export class ModuleList {
  readonly #modules: ClientModule[];

  constructor(modules: readonly ClientModule[]) {
    this.#modules = [...modules];
  }

  get plan(): Plan {
    return Object.assign({}, ...this.#modules.map(({ plan }) => plan));
  }

  /** Adds a module that a call has asked for. */
  add(module: ClientModule): void {
    this.#modules.push(module);
  }

  /** Calls a hook of each module that has it. Returns what each module has returned. */
  call<Name extends Hook>(
    name: Name,
    ...args: Parameters<Call<Name>>
  ): (ReturnType<Call<Name>> | undefined)[] {
    type Hooks = Record<Hook, ((...args: unknown[]) => ReturnType<Call<Name>>) | undefined>;
    return this.#modules.map((module) => (module as Hooks)[name]?.(...args));
  }

  has(state: 'isRebuilt' | 'isAway'): boolean {
    return this.#modules.some((module) => module[state]);
  }

  lossOf(reset: SessionReset): SessionReset {
    return this.#modules.reduce((lost, module) => module.lossOf?.(lost) ?? lost, reset);
  }
}
