import { renderMermaidSVG } from 'beautiful-mermaid';
import { sequenceDrawing } from './sequence-drawing.js';

/** Draws the Mermaid blocks of the pages when the site is built, so that readers load no code for it. `style.css` has the colours. */

/** @param id begins with a letter, and is unique in the page. @throws Error if a screen reader had nothing to say. */
export function drawingOf(source: string, id: string): string {
  const [line = '', says] = /^ *accDescr: (.+)\n/m.exec(source) ?? [];
  if (says === undefined) throw new Error(`a drawing without accDescr: ${source}`);
  const mermaid = source.replace(line, '');
  const svg = mermaid.startsWith('sequenceDiagram')
    ? sequenceDrawing(mermaid)
    : renderMermaidSVG(mermaid, DENSE);
  const [head, width] = /^<svg [^>]*?width="([\d.]+)"[^>]*>(?:\s*<style>[\s\S]*?<\/style>)?/.exec(svg) ?? [];
  if (head === undefined) throw new Error(`no drawing: ${svg.slice(0, 200)}`);
  const [viewBox] = /viewBox="[^"]*"/.exec(head) ?? [];
  const size = `max-width: ${width}px; min-width: ${Math.round(0.8 * Number(width))}px`;
  const drawn = svg
    .slice(head.length)
    .replaceAll(/\s*\n\s*/g, '')
    .replaceAll(/(?<= id="|url\(#)/g, `${id}-`);
  return `<div class="drawing" v-pre><svg ${viewBox} style="${size}" role="img" aria-label="${escaped(says)}">${drawn}</div>\n`;
}

const DENSE = { padding: 4, nodeSpacing: 14, layerSpacing: 24 };

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
