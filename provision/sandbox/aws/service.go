package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
)

type protocol int

const (
	ec2Protocol   protocol = iota // forms in, XML out, EC2's dialect
	queryProtocol                 // forms in, XML out
	jsonProtocol                  // X-Amz-Target names the operation
	restProtocol                  // method and path name the operation
)

// service is one AWS API: how it speaks, and the table of its operations.
type service struct {
	name     string
	protocol protocol
	version  string   // API version (query) or target prefix (JSON)
	regions  []string // whose scope it accepts
	ops      map[string]operation
	route    func(method, path string) string // of restProtocol
	throttle *api.Error                       // how it says "too many requests"
	asks     map[string]authorization         // what each operation asks of IAM
	required map[string][]string              // members that each operation requires
}

// table lists every service by its name in a credential scope.
func (c *Cloud) table() map[string]service {
	here, home := []string{c.account.Region}, []string{"us-east-1"}
	slow := func(status int, code string) *api.Error { return api.NewError(status, code, "Rate exceeded") }
	all := []service{
		{name: "ec2", protocol: ec2Protocol, version: "2016-11-15", regions: here, ops: ec2Operations(),
			throttle: api.NewError(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")},
		// Real IAM wants its home region; the SDK signs with the client's own as
		// soon as the endpoint is not AWS's.
		{name: "iam", protocol: queryProtocol, version: "2010-05-08", regions: slices.Concat(home, here), ops: iamOperations(), throttle: slow(400, "Throttling")},
		{name: "sts", protocol: queryProtocol, version: "2011-06-15", regions: here, ops: stsOperations(), throttle: slow(400, "Throttling")},
		{name: "ssm", protocol: jsonProtocol, version: "AmazonSSM", regions: here, ops: ssmOperations(), throttle: slow(400, "ThrottlingException")},
		{name: "sqs", protocol: jsonProtocol, version: "AmazonSQS", regions: here, throttle: slow(400, "RequestThrottled")},
		{name: "events", protocol: jsonProtocol, version: "AWSEvents", regions: here, throttle: slow(400, "ThrottlingException")},
		{name: "logs", protocol: jsonProtocol, version: "Logs_20140328", regions: here, throttle: slow(400, "ThrottlingException")},
		{name: "servicequotas", protocol: jsonProtocol, version: "ServiceQuotasV20190624", regions: here, throttle: slow(400, "TooManyRequestsException")},
		{name: "pricing", protocol: jsonProtocol, version: "AWSPriceListService", regions: []string{"us-east-1", "eu-central-1", "ap-south-1", "cn-northwest-1"},
			ops: pricingOperations(), throttle: slow(400, "ThrottlingException")},
		{name: "eks", protocol: restProtocol, regions: here, ops: eksOperations(), route: eksRoute, throttle: slow(429, "ThrottlingException")},
		{name: "arc-zonal-shift", protocol: restProtocol, regions: here, ops: arcOperations(), route: arcRoute, throttle: slow(429, "ThrottlingException")},
	}
	out := make(map[string]service, len(all))
	asks, tables := authorizations(), c.st.tables()
	for _, s := range all {
		s.asks, s.required = asks[s.name], required()[s.name]
		if t, ok := tables[s.name]; ok {
			s.adopt(t)
		}
		out[s.name] = s
	}
	return out
}

// adopt serves the table of a service that is a package of its own.
func (s *service) adopt(t api.Table) {
	s.ops, s.asks, s.required = map[string]operation{}, map[string]authorization{}, t.Required
	for op, o := range t.Operations {
		s.ops[op] = operation{params: o.Params, read: o.Read, unlocked: o.Unlocked, class: o.Class,
			run: func(in *call) (any, error) { return in.st.tables()[in.svc.name].Operations[in.Op].Run(&in.Call) }}
	}
	for op, ask := range t.Authorizations {
		s.asks[op] = func(in *call) []api.AuthorizationRequest { return ask(&in.Call) }
	}
}

func (s service) servesIn(region string) bool { return slices.Contains(s.regions, region) }

// unknown is the answer to an operation that is not in the table.
func (s service) unknown(in *call) error {
	switch s.protocol {
	case ec2Protocol, queryProtocol:
		return api.Refuse("InvalidAction", "The action %s is not valid for this web service (%s).", in.Op, s.name)
	case jsonProtocol:
	case restProtocol:
		return api.NewError(http.StatusNotFound, "UnknownOperationException", fmt.Sprintf("%s has no operation %s.", s.name, in.Target))
	}
	return api.Refuse("UnknownOperationException", "%s has no operation %s.", s.name, in.Op)
}

// write sends an answer, or an error, as the protocol wants it.
func (s service) write(w http.ResponseWriter, in *call, answer any, err error) {
	var failed *api.Error
	if err != nil && !errors.As(err, &failed) {
		failed = api.NewError(http.StatusInternalServerError, "InternalError", err.Error())
	}
	w.Header().Set("X-Amzn-Requestid", in.id)
	switch s.protocol {
	case ec2Protocol, queryProtocol:
		w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
		nodes, _ := answer.([]query.Element)
		s.writeXML(w, in, nodes, failed)
	default:
		w.Header().Set("Content-Type", "application/json")
		if s.protocol == jsonProtocol {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		}
		if s.name == "sqs" {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			if failed != nil {
				w.Header().Set("X-Amzn-Query-Error", sqs.ErrorCode(failed.Code)+";Sender")
			}
		}
		writeJSON(w, answer, failed)
	}
}

func (s service) writeXML(w http.ResponseWriter, in *call, nodes []query.Element, failed *api.Error) {
	id := in.id
	var root query.Element
	var xmlns string
	switch {
	case failed != nil && s.protocol == ec2Protocol:
		root = query.Group("Response",
			query.Group("Errors", query.Group("Error", query.Text("Code", failed.Code), query.Text("Message", failed.Message))),
			query.Text("RequestID", id))
	case failed != nil:
		root = query.Group("ErrorResponse",
			query.Group("Error", query.Text("Type", "Sender"), query.Text("Code", failed.Code), query.Text("Message", failed.Message)),
			query.Text("RequestId", id))
	case s.protocol == ec2Protocol:
		xmlns = "http://ec2.amazonaws.com/doc/" + s.version + "/"
		root = query.Group(in.Op+"Response", append([]query.Element{query.Text("requestId", id)}, nodes...)...)
	default:
		xmlns = "https://" + s.name + ".amazonaws.com/doc/" + s.version + "/"
		root = query.Group(in.Op+"Response", result(in.Op, nodes), query.Group("ResponseMetadata", query.Text("RequestId", id)))
	}
	if failed != nil {
		w.WriteHeader(failed.Status)
	}
	_, _ = w.Write(query.Document(root, xmlns)) // a caller that went away needs no answer
}

// result holds what an operation of the query protocol answers; one that has
// nothing to answer has none.
func result(op string, nodes []query.Element) query.Element {
	if len(nodes) == 0 {
		return query.Element{}
	}
	return query.Group(op+"Result", nodes...)
}

func writeJSON(w http.ResponseWriter, answer any, failed *api.Error) {
	if failed != nil {
		w.Header().Set("X-Amzn-Errortype", failed.Code)
		w.WriteHeader(failed.Status)
		answer = map[string]string{"__type": failed.Code, "message": failed.Message}
	}
	_ = json.NewEncoder(w).Encode(answer) // as above
}
