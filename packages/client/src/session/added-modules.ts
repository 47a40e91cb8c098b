import type { RequestHandler, SessionPort } from '@parlance/protocol';
import { ProtocolError, type parts } from '@parlance/protocol/client';
import type { ClientModule, Setup } from './module.js';
import type { ClientSession, ClientSessionHost } from './session.js';
import type { SessionModule, SessionModuleHooks } from './session-module.js';

interface Adding {
  readonly tools: Setup['tools'];
  readonly answers: ReturnType<typeof parts.answers.get>;
  /** Tabs share the session. */
  readonly isShared: boolean;
}

/** The joint work of an application's modules. */
interface AddedModules extends Required<Pick<ClientModule, 'open'>> {
  wrap(handler: RequestHandler | undefined): RequestHandler | undefined;
}

/** @throws {ProtocolError} `invalid_option`, and what a module throws that cannot be installed. */
export function addModules(
  given: readonly SessionModule[],
  { tools, answers: { extendSession, unanswered }, isShared }: Adding,
): AddedModules {
  let host: ClientSessionHost | undefined;
  const established = (): ClientSessionHost => {
    if (host !== undefined) return host;
    throw new ProtocolError('session_closed', 'the session has not been established yet');
  };
  const port: SessionPort<ClientSession> & Pick<ClientSessionHost, 'listeners'> = {
    get session() {
      return established().session;
    },
    get listeners() {
      return established().listeners;
    },
    notify: (name, event) => established().notify(name, event),
  };
  const installed = installedOf(given, port);
  const extend = (session: ClientSession) =>
    extendSession(
      session,
      () => port,
      installed.map(({ name, hooks: { verbs, events } }) => ({ name, verbs, events })),
    );
  // One without a host shows which names are taken, before anything connects.
  extend(tools.createSession(undefined as never));
  /** The session is there, for its application or for a handler, whichever is first. */
  const begin = (session: ClientSession): void => {
    if (host !== undefined) return;
    host = tools.hostOf(session);
    extend(session);
  };
  const wrapping = installed.filter(({ hooks }) => hooks.wrap !== undefined);
  const [first] = wrapping;
  if (first !== undefined && isShared) {
    const message = `modules: ${first.name} answers requests, which a shared session does not`;
    throw new ProtocolError('invalid_option', message);
  }
  return {
    async open(next) {
      const session = await next();
      begin(session);
      return session;
    },
    wrap(handler) {
      if (first === undefined) return handler;
      const all = wrapping.reduceRight(
        (next, { name, hooks }) => {
          const wrapped = hooks.wrap?.(next);
          if (typeof wrapped === 'function') return wrapped;
          throw new ProtocolError('invalid_option', `modules: wrap of ${name} must return a function`);
        },
        handler ?? (unanswered as RequestHandler),
      );
      return (message, context) => {
        begin(context.session as ClientSession);
        return all(message, context);
      };
    },
  };
}

interface Installed {
  readonly name: string;
  readonly hooks: SessionModuleHooks;
}

/** @param given by the application, which may be anything. */
function installedOf(
  given: readonly SessionModule[],
  port: SessionPort<ClientSession>,
): readonly Installed[] {
  const names = new Set<string>();
  return given.map((module) => {
    const { name, install } = (module ?? {}) as Partial<SessionModule>;
    if (typeof name !== 'string' || name === '' || typeof install !== 'function')
      throw new ProtocolError(
        'invalid_option',
        'modules: a list of objects with name and install is expected',
      );
    if (names.has(name)) throw new ProtocolError('invalid_option', `modules: ${name} is there twice`);
    names.add(name);
    const hooks: unknown = module.install(port);
    if (typeof hooks === 'object' && hooks !== null) return { name, hooks };
    throw new ProtocolError('invalid_option', `modules: install of ${name} must return an object`);
  });
}
