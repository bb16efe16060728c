// An MCP server on standard input and output with the tools that the conformance suite calls by name: what they answer
// must come through skep as it left here.
import { createInterface } from 'node:readline';

const text = (text) => ({ type: 'text', text });
const image = {
  type: 'image',
  mimeType: 'image/png',
  data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
};
const audio = { type: 'audio', mimeType: 'audio/wav', data: 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=' };
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

const tools = {
  test_simple_text: { content: [text('This is a simple text response for testing.')] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [audio] },
  test_embedded_resource: {
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  },
  test_multiple_content_types: {
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: { content: [text('This tool intentionally returns an error for testing')], isError: true },
};

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'fixture', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({
    tools: Object.keys(tools).map((name) => ({ name, description: `Is ${name}.`, inputSchema: { type: 'object' } })),
  }),
  'tools/call': ({ name }) => tools[name],
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = methods[method]?.(params ?? {});
  const told = result ? { result } : { error: { code: -32601, message: `there is no ${method}` } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...told }));
});
