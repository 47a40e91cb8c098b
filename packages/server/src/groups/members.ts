import type { Member, MembersPage } from './group.js';
import type { Groups } from './groups.js';
import { readData } from './state.js';

/** Members of a group at this node, by their IDs. @param after the ID before the first one. */
export function membersHere(
  groups: Groups,
  node: string,
  name: string,
  after: string | undefined,
  limit: number,
): MembersPage {
  const all = [...(groups.local.get(name)?.members.values() ?? [])];
  const later = all.filter(({ session }) => after === undefined || session.id > after);
  later.sort((one, two) => (one.session.id < two.session.id ? -1 : 1));
  const members = later.slice(0, limit).map(
    ({ session, data }): Member => ({
      id: session.id,
      node,
      principal: session.isAnonymous ? undefined : session.principal,
      state: session.state === 'suspended' ? 'suspended' : 'joined',
      data: data === undefined ? undefined : readData(data),
    }),
  );
  return { members, next: later.length > limit ? members.at(-1)?.id : undefined };
}
