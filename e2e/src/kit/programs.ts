import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { DurableNodeCommands, DurableNodeSetup } from '../cluster/durable-node.js';
import type { NodeCommands, NodeSetup } from '../cluster/node.js';
import type { EventsNodeCommands, EventsNodeSetup } from '../durable/events-node.js';
import type { SurvivalNodeCommands, SurvivalNodeSetup } from '../survival/node.js';

/** Programs in processes of their own. In a test run they were bundled; see `bundle-programs.ts`. */

const source = (path: string) => new URL(`../${path}.ts`, import.meta.url);

export const SOURCES = {
  'ai/chat-process': source('ai/chat-process'),
  'ai/openai-process': source('ai/openai-process'),
  'cluster/durable-node': source('cluster/durable-node'),
  'cluster/node': source('cluster/node'),
  'native-process': source('kit/native-process'),
  'durable/events-node': source('durable/events-node'),
  'reloads/file-worker': source('reloads/file-worker'),
  'survival/node': source('survival/node'),
  cli: source('../../packages/cli/src/main'),
} as const;

/** The program to start: a file, and the flags that Node needs for it. */
export function programOf(name: keyof typeof SOURCES): {
  readonly file: URL;
  readonly flags: readonly string[];
} {
  const bundled = process.env['E2E_PROGRAMS'];
  return bundled === undefined
    ? { file: SOURCES[name], flags: ['--import', 'tsx', '--conditions=@parlance/source'] }
    : { file: pathToFileURL(join(bundled, `${name}.mjs`)), flags: [] };
}

interface Programs {
  'cluster/durable-node': { readonly setup: DurableNodeSetup; readonly commands: DurableNodeCommands };
  'cluster/node': { readonly setup: NodeSetup; readonly commands: NodeCommands };
  'durable/events-node': { readonly setup: EventsNodeSetup; readonly commands: EventsNodeCommands };
  'survival/node': { readonly setup: SurvivalNodeSetup; readonly commands: SurvivalNodeCommands };
}

export interface NodeProcess<Name extends keyof Programs> {
  readonly process: Child<Programs[Name]['commands']>;
  readonly port: number;
}

export type DurableNode = NodeProcess<'cluster/durable-node'>;

/** Starts a node, and waits until it is a member of its cluster. */
export async function startNode<Name extends keyof Programs>(
  name: Name,
  setup: Programs[Name]['setup'],
): Promise<NodeProcess<Name>> {
  const { file, flags } = programOf(name);
  // Both programs offer these two, which the compiler cannot see while it does not know which one this is.
  const node = startChild<DurableNodeCommands>(file, [JSON.stringify(setup)], [...flags, '--expose-gc']);
  const port = await node.call('port');
  while ((await node.call('events'))['node.member'] === undefined) await pause(10);
  return { process: node as unknown as NodeProcess<Name>['process'], port };
}

export const startDurableNode = (setup: DurableNodeSetup): Promise<DurableNode> =>
  startNode('cluster/durable-node', setup);
