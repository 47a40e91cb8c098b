import { readFileSync } from 'node:fs';

/** The registry maps numbers of the specification to what covers them. */
const REGISTRY = new URL('../../requirements.json', import.meta.url);

let registry: Readonly<Record<string, unknown>> | undefined;

function read(): Readonly<Record<string, unknown>> {
  registry ??= JSON.parse(readFileSync(REGISTRY, 'utf8')) as Readonly<Record<string, unknown>>;
  return registry;
}

/** @returns the numbers that a scenario covers. */
export function requirementsOf(scenario: string): readonly string[] {
  return Object.entries(read())
    .filter(([, covered]) => Array.isArray(covered) && covered.includes(`scenario: ${scenario}`))
    .map(([id]) => id);
}

/** @returns every number, in the order of the specification. */
export const allRequirements = (): readonly string[] => Object.keys(read());
