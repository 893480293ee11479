package userdata

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// maxParts and maxText bound hostile input; EC2 itself stops at 16 KiB.
	maxParts = 64
	maxText  = 1 << 20

	typeNodeConfig = "application/node.eks.aws"
	typeScript     = "text/x-shellscript"
)

// part is one document of the user data.
type part struct {
	mediaType string
	body      string
}

func (p part) isScript() bool { return p.mediaType == typeScript }

func (p part) isNodeConfig() bool { return p.mediaType == typeNodeConfig }

// split returns the documents of a MIME archive, or the text itself as the only
// document, with its type derived from how it begins, as cloud-init does.
func split(text string) ([]part, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("it is longer than %d bytes", maxText)
	}
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(trimmed, "MIME-Version:") && !strings.HasPrefix(trimmed, "Content-Type:") {
		return []part{single(trimmed)}, nil
	}
	message, err := mail.ReadMessage(strings.NewReader(trimmed))
	if err != nil {
		return nil, errors.New("its MIME header is malformed")
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") || params["boundary"] == "" {
		return nil, errors.New("its MIME header names no multipart type with a boundary")
	}
	return readParts(multipart.NewReader(message.Body, params["boundary"]))
}

func readParts(reader *multipart.Reader) ([]part, error) {
	var parts []part
	for {
		next, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("MIME part %d is malformed", len(parts)+1)
		}
		if len(parts) == maxParts {
			return nil, fmt.Errorf("it has more than %d MIME parts", maxParts)
		}
		body, err := io.ReadAll(next)
		if err != nil {
			return nil, fmt.Errorf("MIME part %d is cut off", len(parts)+1)
		}
		mediaType, _, err := mime.ParseMediaType(next.Header.Get("Content-Type"))
		if err != nil {
			mediaType = single(string(body)).mediaType
		}
		parts = append(parts, part{mediaType: mediaType, body: string(body)})
	}
}

func single(text string) part {
	if strings.HasPrefix(text, "#!") {
		return part{mediaType: typeScript, body: text}
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	if yaml.Unmarshal([]byte(text), &head) == nil && strings.HasPrefix(head.APIVersion, nodeConfigGroup+"/") {
		return part{mediaType: typeNodeConfig, body: text}
	}
	return part{mediaType: "text/plain", body: text}
}
