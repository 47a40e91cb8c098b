import { CLUSTER, JOINING } from '../cluster/service.js';
import { type Feature, type Figure, Service } from '../server/features/feature.js';
import { counts, one } from '../server/features/figures.js';
import { NODE, type OwnHooks, type OwnHost, type ThisNode } from '../server/features/own-feature.js';
import type { Group } from './group.js';
import { Groups } from './groups.js';
import type { Membership } from './local-group.js';
import { NamedGroup } from './named-group.js';
import { groupsOfNodes } from './nodes/groups-of-nodes.js';
import { type GroupsOptions, resolveGroupsOptions } from './options.js';
import { Presences } from './presences.js';
import { readSaved, savedOf } from './state.js';

export const GROUPS = new Service<{ named(name: string): Group }>('groups');

/** Sessions that are sent the same messages: `server.group(name)`, at all nodes if there are others. On by default. */
export const groups = (options: GroupsOptions = {}): Feature => ({
  name: 'groups',
  after: ['metrics', NODE],
  install(host: OwnHost): OwnHooks {
    const resolved = resolveGroupsOptions(options);
    const { limits, logger } = host.options;
    const slot = host.slot<Map<string, Membership>>(() => new Map());
    const all = new Groups({
      options: resolved,
      logger,
      find: (sessionId) => host.find(sessionId),
      changed: (session) => host.changed(session),
      membershipsOf: (session) => slot.of(session),
      peekMemberships: (session) => slot.peek(session),
    });
    const cluster = host.use(CLUSTER);
    const { incarnation: own } = host.use(NODE) as ThisNode;
    const presences = new Presences(all, own);
    const others = cluster && groupsOfNodes(cluster, host, all, presences);
    all.nodes = others;
    const { maxMessageSize } = limits;
    const group = { groups: all, presences, own, maxMessageSize, maxDataBytes: resolved.maxDataBytes };
    host.provide(GROUPS, { named: (name) => new NamedGroup(group, name) });
    return {
      figures: figuresOf(all, () => others?.waitingBytes ?? 0),
      refuses: () => (others?.isReady === false ? JOINING : undefined),
      start: () => others?.start(),
      tick() {
        others?.handleTick();
        presences.handleTick();
      },
      close: () => {
        presences.close();
        return others?.close();
      },
      save: (session) => savedOf(slot.peek(session)),
      load(saved) {
        const memberships = readSaved(saved);
        return (session) => all.restore(session, memberships);
      },
      release: (session) => all.release(session),
      moved: (session, node) => all.forget(session, node === undefined ? 'waits' : 'moved'),
      ended: (session) => all.forget(session, session.isElsewhere ? 'waits' : 'left'),
    };
  },
});

function figuresOf(all: Groups, waitingBytes: () => number): readonly Figure[] {
  const memberships = () => {
    let count = 0;
    for (const { members } of all.local.values()) count += members.size;
    return count;
  };
  return [
    one('group_members', 'Memberships of sessions of this node in groups.', memberships),
    counts('group_refused', 'Messages to groups that members of this node were not given.', 'why', () => ({
      refused: all.refused,
      missed: all.missed,
    })),
    one(
      'group_waiting_bytes',
      'Bytes of messages to groups that are kept for members that are elsewhere, or wait for other nodes.',
      waitingBytes,
    ),
  ];
}
