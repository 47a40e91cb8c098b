import { ExitCode } from './failure.js';
import { runCommandLine } from './run.js';
import { createTerminal } from './terminal.js';

/**
 * The process `parlance`. It ends by running out of things to do, so that everything that was written
 * has left it.
 */

let hasReader = true;
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!hasReader) return;
    hasReader = false;
    // Whoever reads has had enough, as `head` has after its lines. A command that takes a signal as a
    // wish to end takes this as one; the others have nothing left to do.
    if (!process.emit('SIGTERM', 'SIGTERM')) process.exit(ExitCode.OK);
  });
}

process.exitCode = await runCommandLine(process.argv.slice(2), {
  output: createTerminal(process.stdout),
  errors: createTerminal(process.stderr),
  isTyped: process.stdin.isTTY === true,
  token: process.env['PARLANCE_TOKEN'] || undefined,
  apiKey: process.env['OPENAI_API_KEY'] || undefined,
});
