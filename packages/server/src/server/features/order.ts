import { ProtocolError } from '@parlance/protocol';

/** An item to put in order. */
export interface Ordered {
  readonly name: string;
  readonly provides?: readonly object[] | undefined;
  /** Those that come before this one if they are there: by name, or by something that they provide. */
  readonly after?: readonly (string | object)[] | undefined;
}

/** Whether `item` names `other` as one that comes before it. */
export const comesAfter = ({ after = [] }: Ordered, { name, provides = [] }: Ordered): boolean =>
  after.some((wanted) => wanted === name || provides.some((port) => port === wanted));

/**
 * The same in an order in which each comes after those that it names, else as they are given.
 *
 * @throws {ProtocolError} `invalid_option` if some each come after the other.
 */
export function inOrder<Item extends Ordered>(items: readonly Item[]): readonly Item[] {
  const ordered = new Set<Item>();
  const visit = (item: Item, way: readonly string[]): void => {
    if (ordered.has(item)) return;
    const further = [...way, item.name];
    if (way.includes(item.name)) {
      const message = `features: ${further.slice(way.indexOf(item.name)).join(' comes after ')}`;
      throw new ProtocolError('invalid_option', message);
    }
    for (const other of items) if (comesAfter(item, other)) visit(other, further);
    ordered.add(item);
  };
  for (const item of items) visit(item, []);
  return [...ordered];
}
