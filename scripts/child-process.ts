import { type ChildProcess, fork } from 'node:child_process';
import { basename } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** Calls to functions of a child process over Node's IPC channel. */

interface Call {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly stack: string | undefined };
}

/** Functions by name; each takes at most one value and returns one, both as JSON. */
export type Commands = Readonly<Record<string, (argument: never) => unknown>>;

export interface Child<Offered extends Commands> {
  readonly pid: number;
  /** How the process ended, with the error if {@link ChildOptions.isQuiet}; `undefined` while it lives. */
  readonly end: string | undefined;
  /** Rejects with what the function throws, or if the process ends first. */
  call<Name extends keyof Offered & string>(
    name: Name,
    ...argument: Parameters<Offered[Name]>
  ): Promise<Awaited<ReturnType<Offered[Name]>>>;
  /** Like `call`, but with a timeout of its own. */
  callWithin<Name extends keyof Offered & string>(
    timeoutMs: number,
    name: Name,
    ...argument: Parameters<Offered[Name]>
  ): Promise<Awaited<ReturnType<Offered[Name]>>>;
  /** Closes the channel; the child exits. */
  stop(): void;
  /** Kills the process and waits until it is gone. */
  kill(): Promise<void>;
}

export interface ChildOptions {
  /** Discards the output, except for an error that ends the process. @default false */
  readonly isQuiet?: boolean;
  /** Of a `call`. @default Infinity */
  readonly timeoutMs?: number;
  /** Another Node. @default that of this process */
  readonly execPath?: string;
  /** Environment variables beside those of this process. @default none */
  readonly env?: Readonly<Record<string, string>>;
}

const MAX_KEPT_ERROR = 4_000;
/** Against hanging only. */
const MAX_DEATH_MS = 60_000;

/**
 * Runs `file`, which {@link offer}s commands, in a process of its own.
 *
 * @param flags for Node, in addition to those of this process.
 */
export function startChild<Offered extends Commands>(
  file: URL,
  args: readonly string[],
  flags: readonly string[] = [],
  {
    isQuiet = false,
    timeoutMs: defaultTimeoutMs = Infinity,
    execPath = process.execPath,
    env = {},
  }: ChildOptions = {},
): Child<Offered> {
  const child: ChildProcess = fork(file, args, {
    execPath,
    env: { ...process.env, ...env },
    execArgv: [...process.execArgv, ...flags],
    stdio: isQuiet ? ['ignore', 'ignore', 'pipe', 'ipc'] : ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  const title = [basename(file.pathname), ...args].join(' ');
  const pending = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  let nextId = 0;
  let stderr = '';
  let end: string | undefined;
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-MAX_KEPT_ERROR);
  });
  child.on('message', ({ id, result, error }: Answer) => {
    const call = pending.get(id);
    pending.delete(id);
    if (error === undefined) return call?.resolve(result as never);
    const { message, stack } = error;
    call?.reject(Object.assign(new Error(`${title}: ${message}`), stack && { stack: `${title}: ${stack}` }));
  });
  child.on('error', () => {});
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      end = `${signal ?? `code ${code}`}${thrownIn(stderr)}`;
      for (const { reject } of pending.values()) reject(new Error(`${title} ended: ${end}`));
      pending.clear();
      resolve();
    });
  });
  const callWithin: Child<Offered>['callWithin'] = (timeoutMs, name, ...[argument]) => {
    if (!child.connected) return Promise.reject(new Error(`${title} has ended`));
    const id = nextId++;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const answer = new Promise<never>((resolve, reject) => {
      pending.set(id, { resolve, reject });
      child.send({ id, name, argument } satisfies Call, () => {});
      if (timeoutMs === Infinity) return;
      timer = setTimeout(() => {
        pending.delete(id);
        reject(new Error(`${title} did not answer ${name} within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    return answer.finally(() => clearTimeout(timer));
  };
  return {
    pid: child.pid as number,
    get end() {
      return end;
    },
    call: (name, ...argument) => callWithin(defaultTimeoutMs, name, ...argument),
    callWithin,
    stop() {
      if (child.connected) child.disconnect();
    },
    async kill() {
      if (end === undefined) child.kill('SIGKILL');
      const late = pause(MAX_DEATH_MS, undefined, { ref: false }).then(() => {
        if (end === undefined) throw new Error(`${title}: process ${child.pid} lives although it was killed`);
      });
      await Promise.race([ended, late]);
    },
  };
}

/** The line of a stack trace that names the error. */
function thrownIn(stderr: string): string {
  const line = stderr
    .split('\n')
    .find((text) => /^\S*(Error|Exception)\b|FATAL ERROR/.test(text.replace(/^Uncaught /, '')));
  return line === undefined ? '' : `, ${line.slice(0, 160)}`;
}

/** In the child: answers calls until the parent exits or closes the channel. */
export function offer(commands: Commands): void {
  const send = (answer: Answer) => process.send?.(answer);
  process.on('disconnect', () => process.exit());
  process.on('message', async ({ id, name, argument }: Call) => {
    try {
      send({ id, result: await commands[name]?.(argument as never) });
    } catch (thrown) {
      const { message, stack } =
        thrown instanceof Error ? thrown : { message: String(thrown), stack: undefined };
      send({ id, error: { message, stack } });
    }
  });
}
