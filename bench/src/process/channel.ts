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

export interface Remote<Offered extends Commands> {
  call<Name extends keyof Offered & string>(
    name: Name,
    ...argument: Parameters<Offered[Name]>
  ): Promise<Awaited<ReturnType<Offered[Name]>>>;
  stop(): void;
}

/**
 * Starts `file` in a process of its own.
 *
 * @param flags for Node, besides those of this process.
 */
export function startRemote<Offered extends Commands>(
  file: URL,
  args: readonly string[],
  flags: readonly string[] = [],
): Remote<Offered> {
  const child: ChildProcess = fork(file, args, { execArgv: [...process.execArgv, ...flags] });
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  let nextId = 0;
  child.on('message', (answer: Answer) => {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (answer.error === undefined) call?.resolve(answer.result as never);
    else call?.reject(new Error(`${args.join(' ')}: ${answer.error}`));
  });
  child.on('error', () => {});
  child.on('exit', (code, signal) => {
    for (const { reject } of waiting.values())
      reject(new Error(`the process for ${args.join(' ')} ended (${signal ?? code})`));
    waiting.clear();
  });
  return {
    call: (name, ...[argument]) =>
      new Promise((resolve, reject) => {
        if (!child.connected) return reject(new Error(`the process for ${args.join(' ')} has ended`));
        const id = nextId++;
        waiting.set(id, { resolve, reject });
        child.send({ id, name, argument } satisfies Call);
      }),
    stop() {
      if (child.connected) child.disconnect();
    },
  };
}

/** In the child: answers calls until the parent goes. */
export function offer(commands: Commands): void {
  const send = (answer: Answer) => process.send?.(answer);
  process.on('disconnect', () => process.exit());
  process.on('message', async ({ id, name, argument }: Call) => {
    try {
      send({ id, result: await commands[name]?.(argument as never) });
    } catch (error) {
      send({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  });
}
