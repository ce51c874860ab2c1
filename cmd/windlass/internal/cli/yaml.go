package cli

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windlass-go/windlass/internal/view"
)

// encodeYAML writes a value as YAML, with the fields of its JSON in their order. Text with
// invisible characters is quoted, with escapes in their place.
func encodeYAML(value any) ([]byte, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	document, err := yamlNode(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return []byte(view.EscapeText(b.String())), nil // quoted text is the only place for such characters
}

func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for d.More() { // of an object, names and values in turn
			child, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := d.Token() // its end
		return n, err
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if view.EscapeText(v) != v {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n, nil
	case json.Number:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
		return n, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}
