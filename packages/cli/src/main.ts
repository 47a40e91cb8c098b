import { ExitCode } from './base/failure.js';
import { createTerminal } from './base/terminal.js';
import { runCommandLine } from './run.js';

/**
 * The process `parlance`. It never calls `exit` in normal operation, so that all of its output is flushed. When nothing is left to do it
 * does: Node 20 waits for its handles then, and was seen to wait for ever, at full load, after a connection that could not be opened.
 */
process.once('exit', (code) => process.exit(code));

let hasReader = true;
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!hasReader) return;
    hasReader = false;
    // The reader has closed the pipe, as `head` does. A command that handles SIGTERM stops as it does
    // after that signal; for any other command there is nothing left to do.
    if (!process.emit('SIGTERM', 'SIGTERM')) process.exit(ExitCode.OK);
  });
}

process.exitCode = await runCommandLine(process.argv.slice(2), {
  output: createTerminal(process.stdout),
  errors: createTerminal(process.stderr),
  isTyped: process.stdin.isTTY === true,
  variable: (name) => process.env[name] || undefined,
  keys: process.stdin.isTTY === true ? readKeys : undefined,
});

/** Each key as it is typed, until the returned function is called. */
function readKeys(onKey: (key: string) => void): () => void {
  const { stdin } = process;
  const take = (data: Buffer) => {
    for (const key of data.toString('utf8')) onKey(key);
  };
  stdin.setRawMode(true);
  stdin.on('data', take);
  return () => {
    stdin.off('data', take);
    stdin.setRawMode(false);
    stdin.destroy();
  };
}
