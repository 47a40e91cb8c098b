import { folderSection, mainSections } from './navigation.js';
import type { Page } from './pages.js';
import { DOCUMENTED, REFERENCE } from './reference.js';

/** The index of the site for programs that read Markdown (llmstxt.org): every page by section, with links to the copies in Markdown. */
export function llmsText(pages: ReadonlyMap<string, Page>): string {
  const sections = [
    ...mainSections(pages),
    folderSection('Protocol', 'docs/protocol', pages),
    folderSection('Design', 'docs/design', pages),
  ].map(({ title, entries }) => ({
    title,
    links: entries.map(({ title, page }) => ({ title, path: page.path })),
  }));
  const reference = DOCUMENTED.map(({ name, path }) => ({ title: name, path }));
  sections.push({ title: 'API reference', links: [{ title: 'Packages', path: REFERENCE }, ...reference] });
  const lists = sections.map(
    ({ title, links }) =>
      `## ${title}\n\n${links.map((each) => `- [${each.title}](${each.path})`).join('\n')}\n`,
  );
  return `# Parlance\n\n> ${SUMMARY}\n\n${lists.join('\n')}`;
}

export const SUMMARY =
  'Sessions over WebSocket and HTTP that keep a chat with an AI model going when the network does not: a server for Node, and clients for pages, Node and Python.';
