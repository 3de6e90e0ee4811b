#include <nlohmann/json.hpp>

#include "tetrad/plan.hpp"

namespace tetrad {
namespace {

using Json = nlohmann::ordered_json;

// An unknown number is null.
Json number(double value) { return value > 0.0 ? Json(value) : Json(nullptr); }

Json estimate_json(const Estimate& estimate) {
  return Json{{"time_s", number(estimate.seconds)}, {"basis", name(estimate.basis)},
              {"source", estimate.source},          {"bytes", estimate.bytes},
              {"operations", estimate.operations},  {"bound_by", estimate.limit},
              {"missing", estimate.missing}};
}

Json considered_json(const Considered& considered) {
  return Json{{"kernel", considered.kernel},
              {"id", id(considered.verdict.reason)},
              {"reason", name(considered.verdict.reason)},
              {"need", considered.verdict.need},
              {"have", considered.verdict.have},
              {"evidence", name(considered.evidence)},
              {"estimate", estimate_json(considered.estimate)}};
}

Json choice_json(const Choice& choice) {
  Json json{{"m", choice.m},
            {"m_begin", choice.m_begin},
            {"m_end", choice.m_end ? Json(*choice.m_end) : Json(nullptr)},
            {"kernel", choice.kernel.empty() ? Json(nullptr) : Json(choice.kernel)},
            {"evidence", name(choice.evidence)},
            {"estimate", estimate_json(choice.estimate)},
            {"limit_s", number(choice.limit_s)},
            {"limit_by", choice.limit_by}};
  json["considered"] = Json::array();
  for (const Considered& considered : choice.considered) json["considered"].push_back(considered_json(considered));
  return json;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json json{{"schema", "tetrad.plan/1.0"},
            {"question", plan.question == Question::this_build ? "this_build" : "if_built"},
            {"problem", to_text(plan.problem)},
            {"device", plan.device.slug},
            {"layout", plan.layout}};
  json["choices"] = Json::array();
  for (const Choice& choice : plan.choices) json["choices"].push_back(choice_json(choice));
  json["warnings"] = plan.warnings;
  return json.dump(2) + "\n";
}

}  // namespace tetrad
