import { type ParseArgsConfig, parseArgs } from 'node:util';

/** The command lines of `npm run` scripts. */

/**
 * Reads the options of a script. `--help` prints its usage and exits. An invalid command line prints what is
 * wrong with it and exits with code 2.
 */
export function readCommandLine<const Config extends ParseArgsConfig>(
  usage: string,
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  if (process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h')) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    const [sentence = ''] = (error as Error).message.split('. ', 1);
    return end(sentence.replace(/\.$/, ''), usage);
  }
}

/** @returns the whole number that an option holds. */
export function wholeNumber(name: string, text: string, usage: string, least = 1): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  return end(`--${name} must be a whole number of at least ${least}, not ${JSON.stringify(text)}`, usage);
}

function end(problem: string, usage: string): never {
  console.error(`${problem}\n\n${usage}`);
  process.exit(2);
}
