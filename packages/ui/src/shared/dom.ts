/** The element with this ID, which must be in the page's HTML. */
export function byId<E extends HTMLElement>(id: string): E {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element #${id}`);
  return element as E;
}

/** Creates an element with properties and children. */
export function create<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Creates an element of a drawing. */
export function draw(tag: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** The `dt` and `dd` pairs of a description list. */
export function descriptions(pairs: readonly (readonly [string, Node | string])[]): HTMLElement[] {
  return pairs.flatMap(([term, value]) => [create('dt', {}, term), create('dd', {}, value)]);
}
