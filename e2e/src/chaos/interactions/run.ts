import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TransportName } from '@parlance/client';
import { MEMORY } from '../../kit/engine-address.js';
import type { Report } from '../cluster/deploy.js';
import { engineOf, type Member, Members } from '../cluster/members.js';
import { readEffects } from '../durable/effects.js';
import { PythonPeers } from '../python/peers.js';
import { Agent, followElsewhere } from './agent.js';
import type { Happening } from './allowed.js';
import { ENGINE_KINDS, type EngineKind, type EngineOfHistory, type InteractionEngine } from './engines.js';
import { type Fault, InteractionLedger } from './ledger.js';
import type { InteractionNodeSetup } from './node.js';
import { type InteractionPlant, PLANT_MIXES } from './plant.js';
import { AGENTS, SLOW_MS } from './settings.js';
import { describeStep, type Mix, type Step, stepsOf, USUAL_MIX } from './steps.js';

/**
 * One history: agents with durable and plain sessions ask, tell and follow while nodes, their engine and connections fail. The seed
 * says what is done and when; what comes of it is up to real processes and sockets, and judged by the ledger.
 */

export interface InteractionOptions {
  readonly engine: EngineOfHistory;
  readonly seconds: number;
  readonly seed: number;
  readonly plant: InteractionPlant | undefined;
  /** Every other agent has a client in Python. */
  readonly python: boolean;
  readonly transport: TransportName;
  /** A file for what the nodes log; what their handlers do goes into another one beside it. */
  readonly log: string | undefined;
}

const DRAIN = { drainMs: 1_800, returnWithinMs: 500 };
const REST_MS = 60_000;
const POLL_MS = 50;
/** Twice the time after which nodes look for others. */
const KNOWN_MS = 3_000;
/** Steps that are printed before the first contradiction, beside those that make something fail. */
const SHOWN_STEPS = 60;

export async function runInteractions(options: InteractionOptions): Promise<Report> {
  const { plant, log } = options;
  const folder = await mkdtemp(join(tmpdir(), 'parlance-chaos-'));
  const effects = join(folder, 'effects');
  const more: Pick<InteractionNodeSetup, 'effects' | 'plant'> = { effects, plant };
  try {
    const kind: EngineKind = ENGINE_KINDS[options.engine];
    const engine = await kind.start();
    await using members = await Members.start(kind.nodes, {
      ...DRAIN,
      ...{ more, log, engine, hasGuards: true, isAlone: kind.nodes === 1 },
      program: new URL('./node.ts', import.meta.url),
    });
    using python = options.python ? new PythonPeers(options.transport) : undefined;
    return await new Interactions(options, kind, engine, members, effects, python).run();
  } finally {
    if (log !== undefined) await appendFile(`${log}.effects`, await readFile(effects));
    await rm(folder, { recursive: true, force: true });
  }
}

class Interactions {
  readonly #options: InteractionOptions;
  readonly #kind: EngineKind;
  readonly #engine: InteractionEngine;
  readonly #members: Members;
  readonly #effects: string;
  readonly #python: PythonPeers | undefined;
  readonly #ledger = new InteractionLedger();
  readonly #agents = new Map<string, Agent>();
  /** The node in each place; `undefined` until the next one has come. */
  readonly #nodes: (Member | undefined)[];
  /** Those that are paused or cut off. */
  readonly #away = new Set<Member>();
  /** When nodes came that were not there from the beginning; Unix milliseconds. */
  readonly #cameAt = new Map<Member, number>();
  readonly #done: { readonly step: Step; readonly at: number; readonly isSkipped: boolean }[] = [];
  #startedAt = 0;
  readonly #underWay = new Map<Promise<void>, Step>();

  constructor(
    options: InteractionOptions,
    kind: EngineKind,
    engine: InteractionEngine,
    members: Members,
    effects: string,
    python: PythonPeers | undefined,
  ) {
    this.#options = options;
    this.#kind = kind;
    this.#engine = engine;
    this.#members = members;
    this.#effects = effects;
    this.#python = python;
    this.#nodes = [...members.alive];
  }

  async run(): Promise<Report> {
    const { seed, seconds, plant } = this.#options;
    const ledger = this.#ledger;
    const onStray = (error: unknown) => ledger.fault('clients', `unhandled: ${String(error)}`);
    process.on('unhandledRejection', onStray).on('uncaughtException', onStray);
    for (const name of AGENTS) this.#agents.set(name, await this.#open(name));
    await Promise.all(AGENTS.map((name) => this.#agent(name).meets(AGENTS)));
    const start = performance.now();
    this.#startedAt = Date.now();
    const mix =
      plant === undefined ? { ...USUAL_MIX, ...this.#kind.mix } : this.#possible(PLANT_MIXES[plant]);
    for (const step of stepsOf(seed, seconds, mix, this.#kind.nodes)) {
      await sleep(Math.max(0, start + step.at - performance.now()));
      this.#begin(step);
    }
    await this.#rest();
    process.off('unhandledRejection', onStray).off('uncaughtException', onStray);
    const faults = ledger.judge(readEffects(this.#effects));
    return {
      faults: faults.map((fault) => this.#dated(fault)),
      lines: [...this.#figures(), ...this.#history(faults)],
    };
  }

  /** Leaves out what cannot happen to this engine. */
  #possible({ nodes, engine, ...users }: Mix): Mix {
    const { mix } = this.#kind;
    const only = <Name extends string>(
      wanted: Readonly<Record<Name, number>>,
      possible: Readonly<Record<Name, number>>,
    ): Readonly<Record<Name, number>> => {
      const entries = Object.entries<number>(wanted) as [Name, number][];
      return Object.fromEntries(
        entries.map(([name, weight]) => [name, possible[name] === 0 ? 0 : weight]),
      ) as Record<Name, number>;
    };
    return { ...users, nodes: only(nodes, mix.nodes), engine: only(engine, mix.engine) };
  }

  async #open(name: string): Promise<Agent> {
    const port = await this.#members.outside.call('door', name);
    const python = AGENTS.indexOf(name) % 2 === 1 ? this.#python : undefined;
    const url = `ws://127.0.0.1:${port}/session`;
    const agent = new Agent(name, url, this.#ledger, this.#options.transport, python);
    await agent.page();
    return agent;
  }

  #begin(step: Step): void {
    const doing = this.#do(step);
    this.#done.push({ step, at: Date.now(), isSkipped: doing === undefined });
    if (doing === undefined) return;
    const guarded = doing.catch((error: unknown) =>
      this.#ledger.fault('clients', `${describeStep(step)}: ${String(error)}`),
    );
    const settled = guarded.finally(() => this.#underWay.delete(settled));
    this.#underWay.set(settled, step);
  }

  /** @returns `undefined` if there is nothing that it could happen to. */
  #do(step: Step): Promise<void> | undefined {
    const { outside, url } = this.#members;
    switch (step.do) {
      case 'ask':
        return this.#agent(step.who).ask(step, step.to);
      case 'say':
        return this.#agent(step.who).say(step.workMs);
      case 'tell':
        return this.#agent(step.who).tell(step.to, step.count);
      case 'follow':
        return this.#agent(step.who).follow(step);
      case 'device':
        return followElsewhere(step.name, url, step, this.#ledger, this.#options.transport);
      case 'reload':
        return this.#agent(step.who).reload();
      case 'cut':
        return outside.call('strike', { names: [step.who], blow: { kind: 'cut' } });
      case 'freeze':
        return outside.call('strike', { names: [step.who], blow: { kind: 'freeze', ms: step.ms } });
      case 'kill':
      case 'drain':
      case 'pause':
      case 'part': {
        const member = this.#nodes[step.node];
        const isLast = !this.#nodes.some((node) => node !== member && this.#isWell(node));
        return member === undefined || this.#away.has(member) || (isLast && !this.#isAlone)
          ? undefined
          : this.#fail(step, member);
      }
      default:
        return this.#failEngine(step);
    }
  }

  /** Whether there is one node at a time. */
  get #isAlone(): boolean {
    return this.#kind.nodes === 1;
  }

  /** Whether a node can take what another one leaves: the others have known it for a while. */
  #isWell(node: Member | undefined): boolean {
    return (
      node !== undefined && !this.#away.has(node) && Date.now() - (this.#cameAt.get(node) ?? 0) > KNOWN_MS
    );
  }

  #agent(name: string): Agent {
    return this.#agents.get(name) as Agent;
  }

  // --- what fails

  async #fail(step: Extract<Step, { readonly node: number }>, member: Member): Promise<void> {
    const { pid } = member.process;
    switch (step.do) {
      case 'kill': {
        const happening = this.#happen('killed', pid);
        happening.to = Date.now();
        this.#nodes[step.node] = undefined;
        await this.#members.kill(member);
        await this.#replace(step.node);
        // Clients hear of it from the next one.
        if (this.#isAlone) happening.to = Date.now();
        return;
      }
      case 'drain': {
        const happening = this.#happen('drained', pid);
        this.#nodes[step.node] = undefined;
        // There is no other node to take its sessions, so a plain one ends as if the node had been killed.
        const end = this.#isAlone ? this.#happen('killed', pid) : happening;
        const stopping = this.#members.stop(member);
        if (this.#isAlone) await stopping;
        const [{ hasEnded }] = await Promise.all([stopping, this.#replace(step.node)]);
        happening.to = end.to = Date.now();
        if (!hasEnded) this.#ledger.fault(`node ${step.node}`, 'did not end after its drain');
        return;
      }
      case 'pause': {
        const happening = this.#happen('paused', pid);
        this.#away.add(member);
        process.kill(pid, 'SIGSTOP');
        await sleep(step.ms);
        if (member.process.end === undefined) process.kill(pid, 'SIGCONT');
        this.#away.delete(member);
        happening.to = Date.now();
        return;
      }
      case 'part': {
        const happening = this.#happen('parted', pid);
        this.#away.add(member);
        const blow = { kind: 'freeze', ms: step.ms } as const;
        await this.#members.outside.call('strike', { names: [engineOf(member.number)], blow });
        this.#away.delete(member);
        happening.to = Date.now();
      }
    }
  }

  async #replace(node: number): Promise<void> {
    const member = await this.#members.add();
    this.#cameAt.set(member, Date.now());
    this.#nodes[node] = member;
  }

  async #failEngine(
    step: Extract<Step, { readonly do: 'slow' | 'silence' | 'restart' | 'fill' }>,
  ): Promise<void> {
    const { outside, alive } = this.#members;
    const names = alive.map(({ number }) => engineOf(number));
    const happening = this.#happen('engine', undefined);
    if (this.#engine.address === MEMORY) {
      if (step.do === 'restart') throw new Error('the engine is in memory');
      const ms = 'ms' in step ? step.ms : 0;
      await alive[0]?.process.call('fail', { kind: step.do, ms });
      happening.to = Date.now();
      return;
    }
    switch (step.do) {
      case 'slow':
        await outside.call('strike', { names, blow: { kind: 'slow', ms: step.ms, delayMs: SLOW_MS } });
        break;
      case 'silence':
        await outside.call('strike', { names, blow: { kind: 'silence' } });
        break;
      case 'restart':
        await this.#engine.restart?.(step.ms);
        break;
      case 'fill':
        await this.#engine.fill?.(step.ms);
    }
    happening.to = Date.now();
  }

  #happen(kind: Happening['kind'], whom: number | undefined): Happening {
    return this.#ledger.happened(kind, whom);
  }

  // --- the end

  /** Waits until all that has begun is over, and everything that was said has come back. */
  async #rest(): Promise<void> {
    const end = performance.now() + REST_MS;
    const isBusy = () => this.#underWay.size > 0 || this.#ledger.isWaiting;
    while (isBusy() && performance.now() < end) await sleep(POLL_MS);
    for (const step of this.#underWay.values())
      this.#ledger.fault(
        'clients',
        `stuck for ${REST_MS} ms after the last step: ${describeStep(step).trim()}`,
      );
    for (const { process: child, number } of this.#members.alive)
      if (child.end !== undefined) this.#ledger.fault(`node ${number}`, `ended by itself: ${child.end}`);
  }

  #figures(): readonly string[] {
    const { engine, seed, seconds } = this.#options;
    const { counts, questions, happenings, told } = this.#ledger;
    const kinds = new Map<string, number>();
    for (const { step, isSkipped } of this.#done)
      if (!isSkipped) kinds.set(step.do, (kinds.get(step.do) ?? 0) + 1);
    return [
      `interactions with ${engine}, seed ${seed}, ${seconds} s: ${[...kinds].map(([kind, count]) => `${count} × ${kind}`).join(', ')}`,
      `  ${counts.complete} of ${counts.expected} replies that nothing may end are complete, of ${questions}; ${counts.followed} were followed to their end`,
      `  ${told.counts.read} messages of agents read, ${told.counts.marked} marked, ${told.counts.reported} reported as not delivered; ${counts.allowed} errors that the documents allow for ${happenings.length} events`,
    ];
  }

  #dated({ at, what }: Fault): string {
    return `at ${((at - this.#startedAt) / 1_000).toFixed(3)}: ${what}`;
  }

  /** The steps up to the first contradiction. */
  #history(faults: readonly Fault[]): readonly string[] {
    const [first] = faults;
    if (first === undefined) return [];
    const before = this.#done.filter(({ at }) => at <= first.at);
    const shown = before.filter(({ step }, i) => i >= before.length - SHOWN_STEPS || !USUAL.has(step.do));
    return [
      `the steps of seed ${this.#options.seed}, without what users did long before:`,
      ...shown.map(
        ({ step, isSkipped }) =>
          `${describeStep(step)}${isSkipped ? ' (not, as too few nodes are well)' : ''}`,
      ),
      `the first contradiction: ${this.#dated(first)}`,
    ];
  }
}

/** The events of users that happen all the time. */
const USUAL: ReadonlySet<string> = new Set(['ask', 'say', 'tell', 'follow', 'device', 'cut']);
