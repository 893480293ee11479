package events

import (
	"encoding/json"
	"strings"
	"testing"
)

const warning = `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","account":"000000000000",
	"resources":["arn:aws:ec2:us-east-1:000000000000:instance/i-1","arn:x"],"detail":{"instance-id":"i-1","instance-action":"terminate","count":3,"last":false,"why":null,
	"entities":[{"id":"i-1","status":"closed"},{"id":"i-2","status":"open"}]}}`

func TestAnEventMatchesAPattern(t *testing.T) {
	for name, tt := range map[string]struct {
		pattern string
		want    bool
	}{
		"the value itself":                           {`{"source":["aws.ec2"]}`, true},
		"one of several values":                      {`{"source":["aws.health","aws.ec2"]}`, true},
		"none of several values":                     {`{"source":["aws.health","ec2"]}`, false},
		"all fields must match":                      {`{"source":["aws.ec2"],"account":["111111111111"]}`, false},
		"a field inside":                             {`{"detail":{"instance-action":["terminate"]}}`, true},
		"a field inside that differs":                {`{"detail":{"instance-action":["stop"]}}`, false},
		"a field that is not there":                  {`{"detail":{"state":["running"]}}`, false},
		"a field inside of a value":                  {`{"source":{"name":["aws.ec2"]}}`, false},
		"a value where there is an object":           {`{"detail":["i-1"]}`, false},
		"a number":                                   {`{"detail":{"count":[3]}}`, true},
		"a number is no text":                        {`{"detail":{"count":["3"]}}`, false},
		"a truth":                                    {`{"detail":{"last":[false]}}`, true},
		"nothing":                                    {`{"detail":{"why":[null]}}`, true},
		"nothing is not what is not there":           {`{"detail":{"when":[null]}}`, false},
		"one of the event's values":                  {`{"resources":["arn:x"]}`, true},
		"none of the event's values":                 {`{"resources":["arn:y"]}`, false},
		"a prefix":                                   {`{"resources":[{"prefix":"arn:aws:ec2:"}]}`, true},
		"a prefix of none":                           {`{"resources":[{"prefix":"arn:aws:s3:"}]}`, false},
		"a prefix of a number":                       {`{"detail":{"count":[{"prefix":""}]}}`, false},
		"anything but another":                       {`{"source":[{"anything-but":"aws.s3"}]}`, true},
		"anything but this":                          {`{"source":[{"anything-but":["aws.s3","aws.ec2"]}]}`, false},
		"anything but a number":                      {`{"detail":{"count":[{"anything-but":[3]}]}}`, false},
		"anything, but it is not there":              {`{"detail":{"state":[{"anything-but":"running"}]}}`, false},
		"it is there":                                {`{"detail":{"count":[{"exists":true}]}}`, true},
		"it should be there":                         {`{"detail":{"state":[{"exists":true}]}}`, false},
		"it is not there":                            {`{"detail":{"state":[{"exists":false}]}}`, true},
		"it should not be there":                     {`{"detail":{"count":[{"exists":false}]}}`, false},
		"it is not there, nor what it would be in":   {`{"mood":{"state":[{"exists":false}]}}`, true},
		"it may be missing, or have that value":      {`{"detail":{"state":["running",{"exists":false}]}}`, true},
		"an object is no leaf that exists":           {`{"detail":[{"exists":true}]}`, false},
		"an object is a leaf that does not exist":    {`{"detail":[{"exists":false}]}`, true},
		"a list is a leaf that exists":               {`{"resources":[{"exists":true}]}`, true},
		"null exists":                                {`{"detail":{"why":[{"exists":true}]}}`, true},
		"a field of one of several objects":          {`{"detail":{"entities":{"id":["i-2"]}}}`, true},
		"two fields of one of several objects":       {`{"detail":{"entities":{"id":["i-2"],"status":["open"]}}}`, true},
		"two fields of two of several objects":       {`{"detail":{"entities":{"id":["i-1"],"status":["open"]}}}`, false},
		"a field that none of several objects has":   {`{"detail":{"entities":{"colour":[{"exists":true}]}}}`, false},
		"anything but a value of a list with others": {`{"resources":[{"anything-but":"arn:x"}]}`, true},
		"anything but all values of a list":          {`{"resources":[{"anything-but":["arn:x","arn:aws:ec2:us-east-1:000000000000:instance/i-1"]}]}`, false},
		"case counts":                                {`{"source":["AWS.EC2"]}`, false},
		"what is not in the pattern does not count":  {`{"detail":{"instance-id":[{"exists":true}]}}`, true},
		"of two fields inside the second decides":    {`{"detail":{"instance-id":["i-1"],"instance-action":["stop"]}}`, false},
		"a list of one field, a matcher of another":  {`{"source":["aws.ec2"],"detail-type":[{"prefix":"EC2 Spot"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parsePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			var event any
			if err := json.Unmarshal([]byte(warning), &event); err != nil {
				t.Fatal(err)
			}
			if got := p.matches(event, true); got != tt.want {
				t.Errorf("%s matches: %t", tt.pattern, got)
			}
		})
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{`{"source":["aws.ec2"]}`, `{"detail":{"a":[{"prefix":"b"},{"anything-but":[1]},{"exists":false},null]}}`, `{`, `[]`, `{"a":[[]]}`, `{"$or":[]}`} {
		f.Add(seed, warning)
	}
	f.Fuzz(func(t *testing.T, text, event string) {
		p, err := parsePattern(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "InvalidEventPatternException: ") {
				t.Errorf("%q is refused with %v", text, err)
			}
			return
		}
		if len(p.fields) == 0 {
			t.Errorf("%q asks for nothing and was taken", text)
		}
		var e any
		if json.Unmarshal([]byte(event), &e) == nil {
			p.matches(e, true)
		}
	})
}
