import { type ChildProcess, fork } from 'node:child_process';

/** Calls to functions of a child process, over the channel that Node opens between the two. */

interface Call {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** Functions by name; each takes one value and returns one, both as JSON. */
export type Commands = Readonly<Record<string, (argument: never) => unknown>>;

export interface Child<Offered extends Commands> {
  readonly pid: number;
  /** How it ended, with the end of its standard error; `undefined` while it lives. */
  readonly end: string | undefined;
  /** @param withinMs how long to wait for the answer; after that the call rejects. */
  call<Name extends keyof Offered & string>(
    name: Name,
    argument: Parameters<Offered[Name]>[0],
    withinMs?: number,
  ): Promise<Awaited<ReturnType<Offered[Name]>>>;
  /** Ends the process, whatever it is doing. */
  kill(): Promise<void>;
}

const MAX_KEPT_ERROR = 4_000;

/** Starts `file` in a process of its own, whose standard error is kept and not shown. */
export function startChild<Offered extends Commands>(
  file: URL,
  argument: unknown,
  flags: readonly string[] = [],
): Child<Offered> {
  const child: ChildProcess = fork(file, [JSON.stringify(argument)], {
    execArgv: [...process.execArgv, ...flags],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  let nextId = 0;
  let error = '';
  let end: string | undefined;
  child.stderr?.on('data', (chunk: Buffer) => {
    error = (error + chunk.toString()).slice(-MAX_KEPT_ERROR);
  });
  child.on('message', (answer: Answer) => {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (answer.error === undefined) call?.resolve(answer.result as never);
    else call?.reject(new Error(answer.error));
  });
  child.on('error', () => {});
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      end = `${signal ?? `code ${code}`}${reasonOf(error)}`;
      for (const { reject } of waiting.values()) reject(new Error(`the process ended: ${end}`));
      waiting.clear();
      resolve();
    });
  });
  return {
    pid: child.pid as number,
    get end() {
      return end;
    },
    call: (name, argument, withinMs = 10_000) =>
      new Promise((resolve, reject) => {
        if (end !== undefined) return reject(new Error(`the process has ended: ${end}`));
        const id = nextId++;
        const timer = setTimeout(() => {
          waiting.delete(id);
          reject(new Error(`no answer to ${name} within ${withinMs} ms`));
        }, withinMs);
        waiting.set(id, {
          resolve: (value) => {
            clearTimeout(timer);
            resolve(value);
          },
          reject: (reason) => {
            clearTimeout(timer);
            reject(reason);
          },
        });
        child.send({ id, name, argument } satisfies Call, () => {});
      }),
    async kill() {
      if (end === undefined) child.kill('SIGKILL');
      await ended;
    },
  };
}

/** The line of a stack trace that says what was thrown. */
function reasonOf(error: string): string {
  const line = error
    .split('\n')
    .find((text) => /^\S*(Error|Exception)\b|FATAL ERROR/.test(text.replace(/^Uncaught /, '')));
  return line === undefined ? '' : `, ${line.slice(0, 160)}`;
}

/** In the child: answers calls until the parent goes. */
export function offer(commands: Commands): void {
  const send = (answer: Answer) => process.send?.(answer);
  process.on('disconnect', () => process.exit());
  process.on('message', async ({ id, name, argument }: Call) => {
    try {
      send({ id, result: await commands[name]?.(argument as never) });
    } catch (error) {
      send({ id, error: error instanceof Error ? error.message : String(error) });
    }
  });
}
