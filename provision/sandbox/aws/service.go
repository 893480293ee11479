package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/eks"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/zonalshift"
)

type protocol int

const (
	ec2Protocol   protocol = iota // forms in, XML out, EC2's dialect
	queryProtocol                 // forms in, XML out
	jsonProtocol                  // X-Amz-Target names the operation
	restProtocol                  // method and path name the operation
)

// service is one AWS API: its protocol, and the table of its operations.
type service struct {
	name     string
	protocol protocol
	version  string                           // API version (query) or target prefix (JSON)
	regions  []string                         // whose scope it accepts
	table    api.Table                        // what it can do in the present
	route    func(method, path string) string // of restProtocol
	throttle *api.Error                       // its error for "too many requests"
}

// servicesOf lists every service by its name in a credential scope.
func servicesOf(account *api.Account, st *state) map[string]service {
	here, home := []string{account.Region}, []string{"us-east-1"}
	slow := func(status int, code string) *api.Error { return api.NewError(status, code, "Rate exceeded") }
	all := []service{
		{name: "ec2", protocol: ec2Protocol, version: "2016-11-15", regions: here,
			throttle: api.NewError(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")},
		// Real IAM requires its home region; the SDK signs with the client's own as soon as
		// the endpoint is not AWS's.
		{name: "iam", protocol: queryProtocol, version: "2010-05-08", regions: slices.Concat(home, here), throttle: slow(400, "Throttling")},
		{name: "sts", protocol: queryProtocol, version: "2011-06-15", regions: here, throttle: slow(400, "Throttling")},
		{name: "ssm", protocol: jsonProtocol, version: "AmazonSSM", regions: here, throttle: slow(400, "ThrottlingException")},
		{name: "sqs", protocol: jsonProtocol, version: "AmazonSQS", regions: here, throttle: slow(400, "RequestThrottled")},
		{name: "events", protocol: jsonProtocol, version: "AWSEvents", regions: here, throttle: slow(400, "ThrottlingException")},
		{name: "logs", protocol: jsonProtocol, version: "Logs_20140328", regions: here, throttle: slow(400, "ThrottlingException")},
		{name: "servicequotas", protocol: jsonProtocol, version: "ServiceQuotasV20190624", regions: here, throttle: slow(400, "TooManyRequestsException")},
		{name: "pricing", protocol: jsonProtocol, version: "AWSPriceListService", regions: []string{"us-east-1", "eu-central-1", "ap-south-1", "cn-northwest-1"},
			throttle: slow(400, "ThrottlingException")},
		{name: "eks", protocol: restProtocol, regions: here, route: eks.Route, throttle: slow(429, "ThrottlingException")},
		{name: "arc-zonal-shift", protocol: restProtocol, regions: here, route: zonalshift.Route, throttle: slow(429, "ThrottlingException")},
	}
	out := make(map[string]service, len(all))
	tables := st.tables()
	for _, s := range all {
		s.table = tables[s.name]()
		out[s.name] = s
	}
	return out
}

func (s service) servesIn(region string) bool { return slices.Contains(s.regions, region) }

// unknown is the error for an operation that is not in the table.
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

// write sends a response, or an error, as the protocol requires it.
func (s service) write(w http.ResponseWriter, in *call, response any, err error) {
	var failed *api.Error
	if err != nil && !errors.As(err, &failed) {
		failed = api.NewError(http.StatusInternalServerError, "InternalError", err.Error())
	}
	w.Header().Set("X-Amzn-Requestid", in.id)
	switch s.protocol {
	case ec2Protocol, queryProtocol:
		w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
		nodes, _ := response.([]query.Element)
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
		writeJSON(w, response, failed)
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
	_, _ = w.Write(query.Document(root, xmlns)) // a caller that went away needs no response
}

// result holds what an operation of the query protocol returns; one that returns
// nothing has none.
func result(op string, nodes []query.Element) query.Element {
	if len(nodes) == 0 {
		return query.Element{}
	}
	return query.Group(op+"Result", nodes...)
}

func writeJSON(w http.ResponseWriter, response any, failed *api.Error) {
	if failed != nil {
		w.Header().Set("X-Amzn-Errortype", failed.Code)
		w.WriteHeader(failed.Status)
		response = map[string]string{"__type": failed.Code, "message": failed.Message}
	}
	_ = json.NewEncoder(w).Encode(response) // as above
}
