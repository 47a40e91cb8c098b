import { defineConfig } from 'vitepress';
import { anchorOf } from '../../scripts/docs/links.js';
import { drawingOf } from '../src/drawings.js';
import { SUMMARY } from '../src/llms.js';
import { folderSection, mainSections, type Section } from '../src/navigation.js';
import { findPages, isSearched } from '../src/pages.js';
import { DOCUMENTED, REFERENCE } from '../src/reference.js';
import { SEARCH_OPTIONS } from '../src/search.js';

const pages = findPages();
const link = (path: string): string => `/${path.replace(/(?:index)?\.md$/, '')}`;
const items = ({ entries }: Section) =>
  entries.map(({ title, page }) => ({ text: title, link: link(page.path) }));
const main = mainSections(pages).map((section) => ({ text: section.title, items: items(section) }));
const reference = ['server', 'client', 'protocol'].map((folder) => ({
  text: `@parlance/${folder}`,
  items: DOCUMENTED.filter((each) => each.folder === folder).map(({ name, path }) => ({
    text: name,
    link: link(path),
  })),
}));

/** A warning fails the build. */
function refuse(message: string): never {
  throw new Error(message);
}

export default defineConfig({
  title: 'Parlance',
  description: SUMMARY,
  lang: 'en',
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: 'dist/.cache',
  // A reader loads what the page needs, and nothing ahead.
  router: { prefetchLinks: false },
  metaChunk: true,
  markdown: {
    anchor: { slugify: anchorOf },
    // Shiki knows no ABNF.
    languages: [{ name: 'abnf', scopeName: 'source.abnf', patterns: [], repository: {} }],
    config(markdown) {
      const { fence } = markdown.renderer.rules;
      markdown.renderer.rules.fence = (tokens, index, ...others) => {
        const { info, content } = tokens[index]!;
        return info === 'mermaid' ? drawingOf(content, `drawing-${index}`) : fence!(tokens, index, ...others);
      };
    },
  },
  transformHead: ({ pageData: { relativePath }, siteData: { base } }) =>
    relativePath === '404.md'
      ? []
      : [['link', { rel: 'alternate', type: 'text/markdown', href: base + relativePath }]],
  vite: {
    customLogger: {
      hasWarned: false,
      info: (message) => console.log(message),
      warn: refuse,
      warnOnce: refuse,
      error: (message) => console.error(message),
      clearScreen() {},
      hasErrorLogged: () => false,
    },
    // The index of the search is loaded with the first word that is sought.
    build: { chunkSizeWarningLimit: 2000 },
    plugins: [
      {
        name: 'server-build',
        // It renders the pages once, and is then deleted.
        config: (_, { isSsrBuild }) => (isSsrBuild ? { build: { rollupOptions: { treeshake: false } } } : {}),
      },
    ],
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/start/quickstart' },
      { text: 'Guides', link: '/guide/existing-server', activeMatch: '^/guide/' },
      { text: 'How do I …?', link: '/how-do-i' },
      { text: 'Operate', link: '/operate/deploy', activeMatch: '^/operate/' },
      { text: 'Reference', link: link(REFERENCE), activeMatch: `^/${REFERENCE.replace('index.md', '')}` },
      { text: 'Comparison', link: '/compare' },
      { text: 'Protocol', link: '/protocol/', activeMatch: '^/protocol/' },
      { text: 'Design', link: '/design/', activeMatch: '^/design/' },
    ],
    sidebar: {
      '/': main,
      '/protocol/': [{ text: 'Protocol', items: items(folderSection('Protocol', 'docs/protocol', pages)) }],
      '/design/': [{ text: 'Design', items: items(folderSection('Design', 'docs/design', pages)) }],
      '/api/': [
        { text: 'API reference', items: [{ text: 'Packages', link: link(REFERENCE) }] },
        ...reference,
        ...main.filter(({ text }) => text === 'Reference' || text === 'Tools'),
      ],
    },
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        // With the words around a hit.
        detailedView: true,
        miniSearch: { searchOptions: SEARCH_OPTIONS },
        _render(source, env, markdown) {
          if (!isSearched(env.relativePath)) return '';
          // The index has words and no colours, which take most of the time.
          const { highlight } = markdown.options;
          markdown.set({ highlight: null });
          const text = markdown.render(source, env);
          markdown.set({ highlight });
          return text;
        },
      },
    },
  },
});
