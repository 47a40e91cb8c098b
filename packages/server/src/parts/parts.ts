import {
  type HelloPayload,
  type Logger,
  ProtocolError,
  type RequestHandler,
  type ResumeOffer,
} from '@parlance/protocol';
import { attempt, type EventRoute, type Fields, guard, loggable } from '@parlance/protocol/internal';
import type { CheckedIdentity, Refusal } from '../admission/admission.js';
import type { Origin } from '../admission/renewal.js';
import type { Sought, Wanted } from '../admission/seek.js';
import type { ServerEndpoint } from '../endpoint.js';
import { NamesRoute } from './names-route.js';
import { inOrder, type Ordered } from './order.js';
import type {
  CoreOptions,
  DrainPart,
  Feature,
  Figure,
  Offer,
  Page,
  PagePort,
  Part,
  PartEndpoint,
  PartHost,
  Port,
} from './part.js';
import { Slot } from './slot.js';

type Named = Part & Ordered;
type Having<Hook extends keyof Part> = Named & { readonly [Name in Hook]-?: NonNullable<Part[Name]> };

/** What a server gives its parts itself. */
export type ServerOfParts = Omit<PartHost, 'slot' | 'provide' | 'use' | 'figures'>;

/** What a session that leaves asks of the parts of its server. */
export type LeavingParts = Pick<
  Parts,
  'hold' | 'isQuiet' | 'leaves' | 'settle' | 'moved' | 'release' | 'save'
>;

/** What the parts of a server do together, in one list for each hook: a hook that no part has costs nothing. */
export class Parts {
  readonly core: CoreOptions;
  readonly endpoint: PartEndpoint;
  readonly offer: Offer;
  readonly figures: readonly Figure[];
  readonly drains: readonly DrainPart[];
  /** By name, for those that parts serve. */
  readonly extensions: Readonly<Record<string, boolean>>;
  readonly #all: readonly Named[];
  readonly #ports = new Map<Port<unknown>, unknown>();
  readonly #logger: Logger;
  readonly #routes;
  readonly #refuses;
  readonly #seeks;
  readonly #records;
  readonly #claims;
  readonly #accepted;
  readonly #ready;
  readonly #resumed;
  readonly #takenOver;
  readonly #ended;
  readonly #leaves;
  readonly #pages;
  readonly #ticks;
  readonly #started = new Set<Named>();
  #isClosed = false;
  #slots = 0;

  /** @throws {ProtocolError} `invalid_option`, and what a feature throws that cannot be installed. */
  constructor(
    features: readonly Feature[],
    server: ServerOfParts,
    logger: Logger,
    given: readonly (readonly [Port<unknown>, unknown])[] = [],
  ) {
    this.#logger = logger;
    for (const [port, value] of given) this.#ports.set(port, value);
    const own: Omit<PartHost, keyof ServerOfParts> = {
      slot: (create) => new Slot(this.#slots++, create, () => this.#slots),
      provide: (port, value) => void this.#ports.set(port, value),
      use: (port) => this.use(port),
      figures: () => this.figures,
    };
    // The getters of the server stay getters.
    const host: PartHost = Object.defineProperties({} as PartHost, {
      ...Object.getOwnPropertyDescriptors(server),
      ...Object.getOwnPropertyDescriptors(own),
    });
    // A part may be an object of a class, whose hooks are not members of its own.
    this.#all = inOrder(features).map((feature) => {
      const { name, after } = feature;
      return Object.assign(feature.install(host), { name, after });
    });
    this.core = this.#merged('core');
    this.endpoint = this.#merged('endpoint');
    this.offer = this.#merged('offer');
    this.figures = this.#having('figures').flatMap(({ figures }) => figures);
    const extensions = this.#having('extensions').flatMap((part) => part.extensions);
    this.extensions = Object.fromEntries(extensions.map((name) => [name, true]));
    this.drains = this.#having('drain').map(({ drain }) => drain);
    this.#routes = this.#all
      .filter(({ names, route }) => names !== undefined || route !== undefined)
      .reverse();
    this.#refuses = this.#having('refuses');
    this.#seeks = this.#having('seek');
    this.#records = this.#having('records');
    this.#claims = this.#having('claim');
    this.#accepted = this.#having('accepted');
    this.#ready = this.#having('ready');
    this.#resumed = this.#having('resumed');
    this.#takenOver = this.#having('takenOver');
    this.#ended = this.#having('ended');
    this.#leaves = this.#having('leaves');
    this.#pages = this.#having('page');
    this.#ticks = this.#having('tick');
  }

  /** The features, in the order in which they were installed. */
  get order(): readonly string[] {
    return this.#all.map(({ name }) => name);
  }

  #having<Hook extends keyof Part>(hook: Hook): Having<Hook>[] {
    return this.#all.filter((part): part is Having<Hook> => part[hook] !== undefined);
  }

  #merged<Values extends 'core' | 'endpoint' | 'offer'>(kind: Values): NonNullable<Part[Values]> {
    const all: Record<string, unknown> = {};
    for (const { name, [kind]: values } of this.#having(kind))
      for (const [key, value] of Object.entries(values)) {
        if (key in all) throw new ProtocolError('invalid_option', `${name}: another feature sets ${key}`);
        all[key] = value;
      }
    return all;
  }

  /** What a part has provided. */
  use<Value>(port: Port<Value>): Value | undefined {
    return this.#ports.get(port) as Value | undefined;
  }

  wrap(handler: RequestHandler): RequestHandler {
    return this.#having('wrap').reduceRight((next, part) => part.wrap(next), handler);
  }

  /** Where events of a session go that are not for the application. */
  routeOf(session: ServerEndpoint): EventRoute | undefined {
    let route: EventRoute | undefined;
    for (const part of this.#routes) {
      if (part.names !== undefined) route = NamesRoute.around(session, part.names, route);
      if (part.route !== undefined) route = part.route(session, route);
    }
    return route;
  }

  // --- a new session. What a part throws ends the handshake.

  refuses(): Refusal | undefined {
    return first(this.#refuses, (part) => part.refuses());
  }

  /** `undefined` if no part looks for it. Never rejects. */
  seek(wanted: Wanted): Promise<Sought> | undefined {
    return first(this.#seeks, (part) => part.seek(wanted));
  }

  records(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): boolean | Refusal {
    return first(this.#records, (part) => part.records(hello, identity, origin)) ?? false;
  }

  claim(session: ServerEndpoint, hello: HelloPayload): Refusal | undefined {
    return first(this.#claims, (part) => part.claim(session, hello));
  }

  accepted(session: ServerEndpoint, resume: ResumeOffer | undefined): void {
    each(session, this.#accepted, (part) => part.accepted(session, resume));
  }

  ready(session: ServerEndpoint): void {
    each(session, this.#ready, (part) => part.ready(session));
  }

  resumed(session: ServerEndpoint): void {
    each(session, this.#resumed, (part) => part.resumed(session));
  }

  ended(session: ServerEndpoint, error: ProtocolError | undefined): void {
    each(session, this.#ended, (part) => part.ended(session, error));
  }

  takenOver(session: ServerEndpoint, hello: HelloPayload): void {
    each(session, this.#takenOver, (part) => part.takenOver(session, hello));
  }

  // --- sessions that leave

  hold(session: ServerEndpoint): void {
    each(session, this.#having('hold'), (part) => part.hold(session));
  }

  isQuiet(session: ServerEndpoint): boolean {
    return this.#having('quiet').every((part) => part.quiet(session));
  }

  leaves(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean {
    return this.#leaves.some((part) => part.leaves(session, stream, how));
  }

  settle(session: ServerEndpoint, reason: ProtocolError): void {
    each(session, this.#having('settle'), (part) => part.settle(session, reason));
  }

  moved(session: ServerEndpoint, node: string): void {
    each(session, this.#having('moved'), (part) => part.moved(session, node));
  }

  release(session: ServerEndpoint): void {
    each(session, this.#having('release'), (part) => part.release(session));
  }

  /** By the names of parts. Throws what one of them throws. */
  save(session: ServerEndpoint): Readonly<Record<string, unknown>> {
    const all: Record<string, unknown> = {};
    for (const part of this.#having('save')) {
      const saved = part.save(session);
      if (saved !== undefined) all[part.name] = saved;
    }
    return all;
  }

  /** @throws {ProtocolError} `bad_message`, also for what no part here has saved: it must not be lost in silence. */
  load(saved: Fields): (session: ServerEndpoint, from: string) => void {
    const loading = this.#having('load');
    const begins = Object.entries(saved).map(([name, value]) => {
      const part = loading.find((each) => each.name === name);
      if (part !== undefined) return part.load(value);
      throw new ProtocolError(
        'bad_message',
        `the session has a state of ${name}, which this node does not have`,
      );
    });
    return (session, from) => each(session, begins, (begin) => begin(session, from));
  }

  // --- the whole server

  pageAt(path: string, port: PagePort): Page | undefined {
    return first(this.#pages, (part) => part.page(path, port));
  }

  isReady(): boolean {
    return this.refuses() === undefined && this.#having('isReady').every((part) => part.isReady());
  }

  /** Another server takes sessions and clients from this one, which drains. */
  get isElsewhere(): boolean {
    return this.drains.some(({ isElsewhere }) => isElsewhere);
  }

  /**
   * Starts each part when those that it comes after have started, and not again if it is called again.
   *
   * @throws what prevents a part from starting.
   */
  async start(): Promise<void> {
    const starting = new Map<string, Promise<unknown>>();
    for (const part of this.#all) {
      const before = Promise.all((part.after ?? []).map((name) => starting.get(name)));
      starting.set(
        part.name,
        before.then(() => this.#start(part)),
      );
    }
    await Promise.all(starting.values());
  }

  async #start(part: Named): Promise<void> {
    if (this.#isClosed || this.#started.has(part)) return;
    await part.start?.();
    this.#started.add(part);
  }

  tick(): void {
    for (const part of this.#ticks) this.#run(part, () => part.tick());
  }

  /** Never rejects. */
  async leave(): Promise<void> {
    for (const part of this.#having('leave')) await this.#attempt(part, () => part.leave());
  }

  /** Never rejects: a part that fails does not keep the others from closing. */
  async close(reason: ProtocolError): Promise<void> {
    this.#isClosed = true;
    for (const part of this.#having('close').reverse()) await this.#attempt(part, () => part.close(reason));
  }

  async #attempt(part: Named, task: () => Promise<void> | void): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.#report(part, error);
    }
  }

  #run(part: Named, task: () => void): void {
    const failed = attempt(task);
    if (failed !== undefined) this.#report(part, failed.error);
  }

  #report({ name }: Named, error: unknown): void {
    const fields = { event: 'part.failed', part: name, err: loggable(error) };
    this.#logger.error(fields, 'a feature of the server has failed');
  }
}

/** The first answer that there is. */
function first<Item, Answer>(
  parts: readonly Item[],
  ask: (part: Item) => Answer | undefined,
): Answer | undefined {
  for (const part of parts) {
    const answer = ask(part);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Calls all of them; a fault in one ends the session, and keeps none of the others from it. */
function each<Item>(session: ServerEndpoint, parts: readonly Item[], call: (part: Item) => void): void {
  for (const part of parts) guard(session, () => call(part));
}
