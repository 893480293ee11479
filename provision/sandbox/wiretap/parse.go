package wiretap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// Kubernetes names requests as the API server itself does, and objects by their UID, also
// one that the Status of a deletion names.
func Kubernetes() Protocol {
	return Protocol{Parse: kubernetesRequest, Response: func(q *trace.Request, content []byte) {
		object := decode(content)
		q.UID = string(object.UID)
		q.Gone = object.DeletionTimestamp != nil && len(object.Finalizers) == 0
		if strings.HasPrefix(q.Kind, nodeClaims) && object.instance != "" {
			q.Instances = []string{object.instance}
		}
	}}
}

const nodeClaims = "nodeclaims.karpenter.sh"

// ConfigMapsOfHistoryAndPrices is the Kind of requests for the ConfigMaps of the controller's history, and for that of the
// prices that it publishes. When they are written depends on the clock, and not on what is declared, so that they have a
// Kind of their own.
const ConfigMapsOfHistoryAndPrices = "configmaps/history"

const (
	historyPrefix = "poolwright-history"
	priceListName = "poolwright-price-list"
)

func kubernetesRequest(r *http.Request, content []byte) trace.Request {
	q := trace.Request{Wire: trace.Kubernetes}
	factory := apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(r)
	switch {
	case err != nil:
		q.Verb, q.Kind = strings.ToLower(r.Method), "unknown"
		return q
	case !info.IsResourceRequest:
		first, _, _ := strings.Cut(strings.TrimPrefix(info.Path, "/"), "/")
		q.Verb, q.Kind = info.Verb, "/"+first
		return q
	}
	q.Verb, q.Kind = info.Verb, schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}.String()
	if info.Subresource != "" {
		q.Kind += "/" + info.Subresource
	}
	q.DryRun = r.URL.Query().Get("dryRun") != ""
	q.Namespace, q.Name = info.Namespace, info.Name
	if info.Namespace != "" && info.Resource == "namespaces" {
		q.Namespace = ""
	}
	object := decode(content)
	if q.Name == "" {
		q.Name = object.Name
	}
	if q.Kind == "configmaps" && (strings.HasPrefix(q.Name, historyPrefix) || q.Name == priceListName) {
		q.Kind = ConfigMapsOfHistoryAndPrices
	}
	if q.Writes() && q.Kind == "leases.coordination.k8s.io" && q.Verb != "delete" {
		q.Holder = &object.holder
	}
	return q
}

type named struct {
	metav1.ObjectMeta
	// holder is a Lease's, instance a NodeClaim's.
	holder, instance string
}

// decode reads an object in JSON or, of the kinds that client-go has, in Protobuf.
func decode(content []byte) named {
	if bytes.HasPrefix(content, []byte("k8s\x00")) {
		object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
		if err != nil {
			return named{}
		}
		switch object := object.(type) {
		case *coordinationv1.Lease:
			out := named{ObjectMeta: object.ObjectMeta}
			if object.Spec.HolderIdentity != nil {
				out.holder = *object.Spec.HolderIdentity
			}
			return out
		case *metav1.Status:
			if object.Details == nil {
				return named{}
			}
			return named{ObjectMeta: metav1.ObjectMeta{UID: object.Details.UID, Name: object.Details.Name}}
		case metav1.ObjectMetaAccessor:
			return named{ObjectMeta: metav1.ObjectMeta{Name: object.GetObjectMeta().GetName(), UID: object.GetObjectMeta().GetUID()}}
		}
		return named{}
	}
	var read struct {
		Metadata metav1.ObjectMeta     `json:"metadata"`
		Details  *metav1.StatusDetails `json:"details"`
		Spec     struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	// What is no object, such as a JSON patch, has no name.
	_ = json.Unmarshal(content, &read)
	if read.Details != nil && read.Metadata.UID == "" {
		read.Metadata.UID, read.Metadata.Name = read.Details.UID, read.Details.Name
	}
	var status struct {
		ProviderID string `json:"providerID"`
	}
	_ = json.Unmarshal(read.Status, &status) // a Status' own is a text
	return named{ObjectMeta: read.Metadata, holder: read.Spec.HolderIdentity, instance: instanceID.FindString(status.ProviderID)}
}

// apiPath is where Gitea and Forgejo serve their API.
const apiPath = "/api/v1/"

var gitCommand = regexp.MustCompile(`command=([a-z-]+)`)

// Forge names requests to a server that has repositories and their pull requests at one
// address: those of Git by the service, those of the API by the path without its names.
func Forge() Protocol {
	return Protocol{Parse: gitOrForge, Response: func(q *trace.Request, content []byte) { q.UID = forgeID(content) }}
}

func gitOrForge(r *http.Request, content []byte) trace.Request {
	if path, ok := strings.CutPrefix(r.URL.Path, apiPath); ok {
		return forgeAPI(strings.ToLower(r.Method), strings.Split(strings.Trim(path, "/"), "/"))
	}
	q := trace.Request{Wire: trace.Git, Verb: strings.ToLower(r.Method), Kind: "unknown"}
	for _, service := range []string{"info/refs", "git-upload-pack", "git-receive-pack"} {
		repository, found := strings.CutSuffix(r.URL.Path, "/"+service)
		if !found {
			continue
		}
		q.Kind, q.Name = service, strings.TrimSuffix(strings.TrimPrefix(repository, "/"), ".git")
		// Version 2 of the protocol names its command in the first packet.
		if m := gitCommand.FindSubmatch(content[:min(len(content), 64)]); m != nil {
			q.Kind += " " + string(m[1])
		}
	}
	return q
}

// forgeAPI names a request below the API: repos/OWNER/NAME/issues/7/comments is
// issues/comments of OWNER/NAME#7, and repos/OWNER/NAME/issues/comments/9 is comments of 9.
func forgeAPI(verb string, parts []string) trace.Request {
	q := trace.Request{Wire: trace.Forge, Verb: verb, Kind: strings.Join(parts, "/")}
	if len(parts) < 3 || parts[0] != "repos" {
		return q
	}
	repository, rest := parts[1]+"/"+parts[2], parts[3:]
	switch {
	case len(rest) == 0:
		q.Kind, q.Name = "repos", repository
	case len(rest) == 3 && rest[0] == "issues" && rest[1] == "comments":
		q.Kind, q.Name = "comments", rest[2]
	case len(rest) == 1:
		q.Kind, q.Name = rest[0], repository
	case len(rest) == 2:
		q.Kind, q.Name = rest[0], repository+"#"+rest[1]
	default:
		q.Kind, q.Name = rest[0]+"/"+rest[2], repository+"#"+rest[1]
	}
	return q
}

// forgeID is the number of what the forge's API returned.
func forgeID(content []byte) string {
	var made struct {
		ID int64 `json:"id"`
	}
	if json.Unmarshal(content, &made) != nil || made.ID == 0 {
		return ""
	}
	return fmt.Sprint(made.ID)
}
