package sqs

import (
	"fmt"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// ruleARN is the rule that sends in these tests.
const ruleARN = "arn:aws:events:us-east-1:" + account + ":rule/spot"

// deliver gives a queue a policy of those statements and has the rule send to it.
func deliver(t *testing.T, statements string) bool {
	t.Helper()
	f := newFixture(t, nil)
	if code := f.do(t, "SetQueueAttributes", members{"Attributes": members{"Policy": `{"Statement":[` + statements + `]}`}}, nil); code != "" {
		t.Fatalf("the policy is refused: %s", code)
	}
	arrived := f.Deliver(queueARN, ruleARN, "event", f.clock.now)
	if got := f.receive(t, nil); (len(got) == 1) != arrived {
		t.Errorf("delivered: %t, and the queue has %+v", arrived, got)
	}
	return arrived
}

func TestARuleSendsWhereThePolicyLetsIt(t *testing.T) {
	allow := func(elements string) string { return `{"Effect":"Allow",` + elements + `}` }
	const bridge, send, here = `"Principal":{"Service":"events.amazonaws.com"},`, `"Action":"sqs:SendMessage",`, `"Resource":"` + queueARN + `"`
	for name, tt := range map[string]struct {
		statements string
		want       bool
	}{
		"an allow for EventBridge":                      {allow(bridge + send + here), true},
		"an allow for one of two services":              {allow(`"Principal":{"Service":["sns.amazonaws.com","events.amazonaws.com"]},` + send + here), true},
		"an allow for everybody":                        {allow(`"Principal":"*",` + send + here), true},
		"an allow for everybody by the other form":      {allow(`"Principal":{"AWS":"*"},` + send + here), true},
		"an allow for another service":                  {allow(`"Principal":{"Service":"sns.amazonaws.com"},` + send + here), false},
		"an allow for the account, which no service is": {allow(`"Principal":{"AWS":"` + account + `"},` + send + here), false},
		"an allow of all of SQS":                        {allow(bridge + `"Action":"sqs:*",` + here), true},
		"an allow of everything":                        {allow(bridge + `"Action":"*","Resource":"*"`), true},
		"an allow of an action in another case":         {allow(bridge + `"Action":"SQS:sendmessage",` + here), true},
		"an allow of an action with a ?":                {allow(bridge + `"Action":"sqs:Send?essage",` + here), true},
		"an allow of receiving alone":                   {allow(bridge + `"Action":["sqs:ReceiveMessage","sqs:DeleteMessage"],` + here), false},
		"an allow for another queue":                    {allow(bridge + send + `"Resource":"` + queueARN + `2"`), false},
		"an allow for queues by a wildcard":             {allow(bridge + send + `"Resource":"arn:aws:sqs:*:*:?"`), true},
		"a deny beside an allow":                        {allow(bridge+send+here) + `,{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*"}`, false},
		"a deny before an allow":                        {`{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*"},` + allow(bridge+send+here), false},
		"a deny of another action":                      {allow(bridge+send+here) + `,{"Effect":"Deny","Principal":"*","Action":"sqs:DeleteQueue","Resource":"*"}`, true},
		"a deny for another service":                    {allow(bridge+send+here) + `,{"Effect":"Deny","Principal":{"Service":"sns.amazonaws.com"},"Action":"*","Resource":"*"}`, true},
		"two allows of which the second is right":       {allow(bridge+`"Action":"sqs:GetQueueUrl",`+here) + "," + allow(bridge+send+here), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := deliver(t, tt.statements); got != tt.want {
				t.Errorf("delivered: %t", got)
			}
		})
	}
}

func TestConditionsOfAQueuePolicy(t *testing.T) {
	const statement = `{"Effect":%q,"Principal":"*","Action":"sqs:SendMessage","Resource":"*","Condition":%s}`
	for name, tt := range map[string]struct {
		condition   string
		allow, deny bool // whether the event arrives by an allow of it, and beside a deny of it
	}{
		"the rule itself":                               {`{"ArnEquals":{"aws:SourceArn":"` + ruleARN + `"}}`, true, false},
		"the rule by a wildcard":                        {`{"ArnLike":{"aws:SourceArn":"arn:aws:events:*:*:rule/*"}}`, true, false},
		"the rule as a string":                          {`{"StringEquals":{"aws:SourceArn":"` + ruleARN + `"}}`, true, false},
		"another rule":                                  {`{"ArnEquals":{"aws:SourceArn":"` + ruleARN + `2"}}`, false, true},
		"one of two rules":                              {`{"ArnEquals":{"aws:SourceArn":["` + ruleARN + `2","` + ruleARN + `"]}}`, true, false},
		"a wildcard that covers two parts of an ARN":    {`{"ArnLike":{"aws:SourceArn":"arn:aws:events:*:rule/spot"}}`, false, true},
		"a wildcard that is none to StringEquals":       {`{"StringEquals":{"aws:SourceArn":"arn:aws:events:*"}}`, false, true},
		"a wildcard that covers anything by characters": {`{"StringLike":{"aws:SourceArn":"arn:aws:events:*spot"}}`, true, false},
		"the account":                                   {`{"StringEquals":{"aws:SourceAccount":"` + account + `"}}`, true, false},
		"another account":                               {`{"StringEquals":{"aws:SourceAccount":"999999999999"}}`, false, true},
		"a key in another case":                         {`{"StringEquals":{"AWS:sourceaccount":"` + account + `"}}`, true, false},
		"a value in another case":                       {`{"StringEquals":{"aws:PrincipalServiceName":"Events.amazonaws.com"}}`, false, true},
		"transport by TLS":                              {`{"Bool":{"aws:SecureTransport":"true"}}`, true, false},
		"transport without TLS":                         {`{"Bool":{"aws:SecureTransport":"false"}}`, false, true},
		"a service of AWS":                              {`{"Bool":{"aws:PrincipalIsAWSService":"true"}}`, true, false},
		"two keys that both hold":                       {`{"StringEquals":{"aws:SourceAccount":"` + account + `","aws:PrincipalServiceName":"events.amazonaws.com"}}`, true, false},
		"two keys of which one holds":                   {`{"StringEquals":{"aws:SourceAccount":"` + account + `","aws:PrincipalServiceName":"sns.amazonaws.com"}}`, false, true},
		"two operators of which one holds":              {`{"StringEquals":{"aws:SourceAccount":"` + account + `"},"Bool":{"aws:SecureTransport":"false"}}`, false, true},
		"an operator that is not emulated":              {`{"StringNotEquals":{"aws:SourceAccount":"999999999999"}}`, false, false},
		"a key that is not emulated":                    {`{"StringEquals":{"aws:SourceOrgID":"o-1"}}`, false, false},
		"one not emulated beside one that fails":        {`{"StringNotEquals":{"aws:SourceAccount":"1"},"Bool":{"aws:SecureTransport":"false"}}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := deliver(t, fmt.Sprintf(statement, "Allow", tt.condition)); got != tt.allow {
				t.Errorf("allowed with it, delivered: %t", got)
			}
			open := `{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"},`
			if got := deliver(t, open+fmt.Sprintf(statement, "Deny", tt.condition)); got != tt.deny {
				t.Errorf("denied with it, delivered: %t", got)
			}
		})
	}
}

func TestAQueuePolicyIsRead(t *testing.T) {
	statement := func(elements string) string { return `{"Version":"2012-10-17","Statement":[{` + elements + `}]}` }
	const principal, action, resource = `"Principal":"*",`, `"Action":"sqs:SendMessage",`, `"Resource":"*"`
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"with all that it needs":               {statement(`"Effect":"Allow",` + principal + action + resource), true},
		"of the older version":                 {`{"Version":"2008-10-17","Id":"x","Statement":{"Effect":"Deny",` + principal + action + resource + `}}`, true},
		"not of a version that IAM lacks":      {`{"Version":"2020-01-01","Statement":{"Effect":"Deny",` + principal + action + resource + `}}`, false},
		"not without an effect":                {statement(principal + action + resource), false},
		"not with an effect in small letters":  {statement(`"Effect":"allow",` + principal + action + resource), false},
		"not without an action":                {statement(`"Effect":"Allow",` + principal + resource), false},
		"not without a resource":               {statement(`"Effect":"Allow",` + principal + `"Action":"sqs:*"`), false},
		"not with an empty list of actions":    {statement(`"Effect":"Allow",` + principal + `"Action":[],` + resource), false},
		"not with an action of another":        {statement(`"Effect":"Allow",` + principal + `"Action":["sqs:*","sns:*"],` + resource), false},
		"not for a principal by its name":      {statement(`"Effect":"Allow","Principal":"events.amazonaws.com",` + action + resource), false},
		"not for a principal of no kind":       {statement(`"Effect":"Allow","Principal":{},` + action + resource), false},
		"not for a principal of another kind":  {statement(`"Effect":"Allow","Principal":{"Machine":"x"},` + action + resource), false},
		"not with a number for an action":      {statement(`"Effect":"Allow",` + principal + `"Action":5,` + resource), false},
		"not with an unknown element":          {statement(`"Effect":"Allow","NotAction":"sqs:*",` + principal + action + resource), false},
		"not with an empty statement":          {`{"Version":"2012-10-17","Statement":[]}`, false},
		"not as a list":                        {`[]`, false},
		"not with a condition that is no map":  {statement(`"Effect":"Allow",` + principal + action + resource + `,"Condition":"x"`), false},
		"not with a condition's value no list": {statement(`"Effect":"Allow",` + principal + action + resource + `,"Condition":{"Bool":{"aws:SecureTransport":{}}}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			f, want := newFixture(t, nil), ""
			if !tt.ok {
				want = "InvalidAttributeValue"
			}
			if code := f.do(t, "SetQueueAttributes", members{"Attributes": members{"Policy": tt.text}}, nil); code != want {
				t.Errorf("code %q, want %q", code, want)
			}
		})
	}
}

func TestTheQueueOfInterruptionsTakesWhatAnyRuleSends(t *testing.T) {
	f := newFixture(t, map[string]string{"Policy": InterruptionPolicy(queueARN)})
	for name, tt := range map[string]struct {
		queue string
		want  bool
	}{
		"its own":                {queueARN, true},
		"one that is not there":  {queueARN + "2", false},
		"one of another account": {"arn:aws:sqs:us-east-1:999999999999:q", false},
		"one of another region":  {"arn:aws:sqs:eu-west-1:" + account + ":q", false},
		"a URL":                  {queueURL, false},
	} {
		if got := f.Deliver(tt.queue, ruleARN, name, f.clock.now); got != tt.want {
			t.Errorf("to %s, delivered: %t", name, got)
		}
	}
	if got := f.receive(t, members{"MaxNumberOfMessages": 10}); len(got) != 1 || got[0].Body != "its own" {
		t.Errorf("the queue has %+v", got)
	}
	closed := newFixture(t, nil)
	if closed.Deliver(queueARN, ruleARN, "event", closed.clock.now) {
		t.Error("a queue without a policy let EventBridge in")
	}
	other := New(&api.Account{ID: account, Region: "us-east-1", Clock: &clock{time.Now()}})
	if other.Send("q", "x") == nil {
		t.Error("a queue that is not there took a message")
	}
}

func FuzzQueuePolicy(f *testing.F) {
	f.Add(InterruptionPolicy("arn:aws:sqs:us-east-1:000000000000:q"))
	f.Add(`{"Statement":{"Effect":"Deny","Principal":{"AWS":["*"]},"Action":"*","Resource":"*","Condition":{"Null":{"a":["true"]}}}}`)
	f.Add(`{"Statement":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseQueuePolicy(text)
		if err != nil {
			return
		}
		if len(p.Statement) == 0 {
			t.Errorf("%q says nothing and was taken", text)
		}
		denied := true
		for _, s := range p.Statement {
			denied = denied && s.Effect == "Deny"
		}
		if p.allows(sending{service: "events.amazonaws.com", queue: "arn:q"}) && denied {
			t.Errorf("%q only denies, and allows", text)
		}
	})
}
