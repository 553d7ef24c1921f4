// Rows that few visitors need have one line until they are opened.
const folding = (summarize) => (Row, {React, getComponent}) => {
  const element = React.createElement
  return class extends React.Component {
    render() {
      const summary = summarize(this.props)
      if (summary === null || (this.state && this.state.isOpen)) return element(Row, this.props)
      const button = element("button", {type: "button"}, `▸ ${summary.name}`)
      const text = element(getComponent("Markdown", true), {source: summary.text})
      const open = () => this.setState({isOpen: true})
      return element(
        "tr", {className: "folded", onClick: open}, element("td", null, button), element("td", null, text)
      )
    }
  }
}

const otherResponses = ({code, response}) =>
  Number(code) < 300 ? null : {name: code, text: response.get("description")}

const rareParameters = ({rawParam}) => {
  const name = rawParam.get("name")
  const isRare = rawParam.get("in") === "header" || /^(fields|filter|page)\[/.test(name)
  return isRare && !rawParam.has("example") ? {name, text: ""} : null
}

window.ui = SwaggerUIBundle({
  url: "./swagger.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout", // the other has an input for the URL of another description
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [
    () => ({wrapComponents: {response: folding(otherResponses), parameterRow: folding(rareParameters)}}),
  ],
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  syntaxHighlight: {activated: false}, // it blocks the page for a minute on 3,000 resources
  validatorUrl: null,
})
