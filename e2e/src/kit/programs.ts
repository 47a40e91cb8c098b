import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { DurableNodeCommands, DurableNodeSetup } from '../cluster/durable-node.js';
import type { NodeCommands, NodeSetup } from '../cluster/node.js';
import type { SurvivalNodeCommands, SurvivalNodeSetup } from '../survival/node.js';

/** Nodes in processes of their own. */

interface Programs {
  'cluster/durable-node': { readonly setup: DurableNodeSetup; readonly commands: DurableNodeCommands };
  'cluster/node': { readonly setup: NodeSetup; readonly commands: NodeCommands };
  'survival/node': { readonly setup: SurvivalNodeSetup; readonly commands: SurvivalNodeCommands };
}

export interface NodeProcess<Name extends keyof Programs> {
  readonly process: Child<Programs[Name]['commands']>;
  readonly port: number;
}

export type DurableNode = NodeProcess<'cluster/durable-node'>;

const FLAGS = ['--import', 'tsx', '--conditions=@parlance/source', '--expose-gc'];

/** Starts a node, and waits until it is a member of its cluster. In a test run it was bundled; see `bundle-programs.ts`. */
export async function startNode<Name extends keyof Programs>(
  name: Name,
  setup: Programs[Name]['setup'],
): Promise<NodeProcess<Name>> {
  const bundled = process.env['E2E_PROGRAMS'];
  const [file, flags] =
    bundled === undefined
      ? [new URL(`../${name}.ts`, import.meta.url), FLAGS]
      : [pathToFileURL(join(bundled, `${name}.mjs`)), ['--expose-gc']];
  // Both programs offer these two, which the compiler cannot see while it does not know which one this is.
  const node = startChild<DurableNodeCommands>(file, [JSON.stringify(setup)], flags);
  const port = await node.call('port');
  while ((await node.call('events'))['node.member'] === undefined) await pause(10);
  return { process: node as unknown as NodeProcess<Name>['process'], port };
}

export const startDurableNode = (setup: DurableNodeSetup): Promise<DurableNode> =>
  startNode('cluster/durable-node', setup);
