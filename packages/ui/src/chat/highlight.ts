import { common, createLowlight } from 'lowlight';
import { create } from '../shared/dom.js';

/** Colours of code. Loaded with the first code block whose language is named. */

type Nodes = ReturnType<ReturnType<typeof createLowlight>['highlight']>['children'];

const lowlight = createLowlight(common);

export function isKnown(language: string): boolean {
  return lowlight.registered(language);
}

/** The text as it is, with its words in spans whose classes begin with `hljs-`. */
export function highlight(text: string, language: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(...elementsOf(lowlight.highlight(language, text).children));
  return fragment;
}

/** Elements are made one by one: HTML would have to be sanitized. */
function elementsOf(nodes: Nodes): (Node | string)[] {
  return nodes.flatMap((node): (Node | string)[] => {
    if (node.type === 'text') return [node.value];
    if (node.type !== 'element') return [];
    const { className } = node.properties;
    const names = Array.isArray(className) ? className.join(' ') : '';
    return [create('span', { className: names }, ...elementsOf(node.children as Nodes))];
  });
}
